# In namespaces of its own: runs the command $3… in the root file system $1, as it would run in the repository $2. Of the
# repository only three folders are there. All is read-only but /tmp, and gone at the end.
set -eu
root=$1 repository=$2
shift 2

mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$root/tmp"
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs "$root/srv"
for folder in python/src python/tests tests/eval/graphs; do
    mkdir -p "$root/srv/$folder"
    mount --bind "$repository/$folder" "$root/srv/$folder"
    mount -o remount,bind,ro "$root/srv/$folder"
done
mount -o remount,ro "$root/srv"

exec chroot "$root" env -i --chdir=/srv HOME=/tmp LANG=C.UTF-8 PATH=/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/srv/python/src "$@"
