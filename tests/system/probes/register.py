"""A client of org.rtswap as others would write it: registers a task and says what the daemon tells of it.

register.py NAME [--lease | --realtime]; the name of the error is printed where it is refused.
"""

import os
import sys
import time

import dbus

ROOT = "/org/rtswap"
OPTIONS = {"footprint": dbus.UInt64(8 << 20), "swappable": dbus.Int32(4 << 20)}
REALTIME = {
    "class": "realtime",
    "period_us": dbus.UInt32(2_000_000),
    "wcet_us": dbus.UInt64(10_000),
}


def tasks(bus):
    manager = dbus.Interface(bus.get_object("org.rtswap", ROOT), "org.freedesktop.DBus.ObjectManager")
    return {path for path, interfaces in manager.GetManagedObjects().items() if "org.rtswap.Task1" in interfaces}


def leased(bus, manager, name):
    path, lease = manager.RegisterWithLease(name, OPTIONS)
    print("while held:", "yes" if path in tasks(bus) else "no")
    os.close(lease.take())
    until = time.monotonic() + 5
    while path in tasks(bus) and time.monotonic() < until:
        time.sleep(0.05)
    print("afterwards:", "yes" if path in tasks(bus) else "no")


def main():
    name, *flags = sys.argv[1:]
    bus = dbus.SystemBus()
    manager = dbus.Interface(bus.get_object("org.rtswap", ROOT), "org.rtswap.Manager1")
    if "--lease" in flags:
        return leased(bus, manager, name)
    options = OPTIONS | REALTIME if "--realtime" in flags else OPTIONS
    try:
        path = manager.Register(name, dbus.Dictionary(options, signature="sv"))
    except dbus.DBusException as error:
        sys.exit(error.get_dbus_name() + ": " + error.get_dbus_message())
    task = dbus.Interface(bus.get_object("org.rtswap", path), "org.freedesktop.DBus.Properties")
    print(path, task.Get("org.rtswap.Task1", "Name"))
    manager.Unregister(path)


main()
