/* A client of org.rtswap as others would write it: registers a task by sd-bus and says its path and its name, as the
 * daemon tells it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>

static void must(const char *what, int result, const sd_bus_error *error)
{
    if (result >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, error && error->message ? error->message : strerror(-result));
    exit(1);
}

int main(int argc, char **argv)
{
    sd_bus *bus = NULL;
    sd_bus_error error = SD_BUS_ERROR_NULL;
    sd_bus_message *reply = NULL;
    const char *path = NULL;
    char *name = NULL;

    if (argc != 2)
        return 2;
    must("bus", sd_bus_open_system(&bus), NULL);
    must("Register",
         sd_bus_call_method(bus, "org.rtswap", "/org/rtswap", "org.rtswap.Manager1", "Register", &error, &reply,
                            "sa{sv}", argv[1], 2, "footprint", "t", (uint64_t)8 << 20, "swappable", "u",
                            (uint32_t)4 << 20),
         &error);
    must("its answer", sd_bus_message_read(reply, "o", &path), NULL);
    must("Name",
         sd_bus_get_property_string(bus, "org.rtswap", path, "org.rtswap.Task1", "Name", &error, &name), &error);
    printf("%s %s\n", path, name);
    must("Unregister",
         sd_bus_call_method(bus, "org.rtswap", "/org/rtswap", "org.rtswap.Manager1", "Unregister", &error, NULL, "o",
                            path),
         &error);
    free(name);
    sd_bus_message_unref(reply);
    sd_bus_unref(bus);
    return 0;
}
