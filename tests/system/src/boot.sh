# PID 1 of new namespaces: an overlay over the root file system $1, all that is written to it in memory, and systemd on it.
# $2 is a folder to mount things on, $3 one that both sides see, as /srv/shared, and $4 a file for the console. $5, where given, is a
# folder that the system sees as /srv/image and does not change.
set -eu
lower=$1 mounts=$2 shared=$3 console=$4

mount -t tmpfs -o mode=755,size=2g tmpfs "$mounts"
mkdir "$mounts/upper" "$mounts/work" "$mounts/root"
root=$mounts/root
mount -t overlay -o "lowerdir=$lower,upperdir=$mounts/upper,workdir=$mounts/work" overlay "$root"

mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
[ ! -e "$root/proc/sysrq-trigger" ] || mount --bind /dev/null "$root/proc/sysrq-trigger"
mount -t sysfs -o nosuid,nodev,noexec sysfs "$root/sys"
mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 "$root/sys/fs/cgroup"
mount -o remount,bind,ro "$root/sys"

mount -t tmpfs -o mode=755,nosuid tmpfs "$root/dev"
node() { mknod "$root/dev/$1" c "$2" "$3" && chmod 666 "$root/dev/$1"; }
node null 1 3; node zero 1 5; node full 1 7; node random 1 8; node urandom 1 9; node tty 5 0
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s fd/0 "$root/dev/stdin"; ln -s fd/1 "$root/dev/stdout"; ln -s fd/2 "$root/dev/stderr"
: > "$root/dev/console"
mount --bind "$console" "$root/dev/console"

mount -t tmpfs -o mode=755,nosuid,nodev tmpfs "$root/run"
mkdir -p "$root/srv/shared"
mount --bind "$shared" "$root/srv/shared"
if [ $# -ge 5 ]; then
    mkdir "$root/srv/image"
    mount --bind "$5" "$root/srv/image"
    mount -o remount,bind,ro "$root/srv/image"
fi
ip link set lo up
hostname rtswap-test

mkdir "$root/.outer"
cd "$root"
pivot_root . .outer
exec chroot . /bin/sh -c 'umount -l /.outer; rmdir /.outer
    exec env -i container=rtswap-test PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        /lib/systemd/systemd --log-target=journal </dev/null >/dev/console 2>&1'
