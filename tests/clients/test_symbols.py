"""cuGetProcAddress gives cuda-bindings the very functions it means.

It asks for each by a name and the version of CUDA that brought the form it calls. An answer with another form's
address would be called with the wrong arguments.
"""

import ctypes
import pathlib
import re
import unittest

from cuda import bindings

DEFAULT, PER_THREAD = 1, 2

ASKED = re.compile(r"cuGetProcAddress_v2\('(\w+)', <void \*\*>&__(\w+), (\d+)")


def asked_for():
    """Name, symbol and version of all that cuda-bindings resolves when it is first used."""
    source = pathlib.Path(bindings.__path__[0]) / "_internal" / "driver_linux.pyx"
    return ASKED.findall(source.read_text())


class Symbols(unittest.TestCase):
    def setUp(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def get(self, name, version, flags):
        address, status = ctypes.c_void_p(1), ctypes.c_int(-1)
        asked = name.encode(), ctypes.byref(address), version, ctypes.c_uint64(flags)
        code = self.library.cuGetProcAddress_v2(*asked, ctypes.byref(status))
        return code, address.value, status.value

    def newest(self):
        """The version of CUDA whose driver this is."""
        version = ctypes.c_int()
        self.assertEqual(self.library.cuDriverGetVersion(ctypes.byref(version)), 0)
        return version.value

    def exported(self, *symbols):
        for symbol in symbols:
            if hasattr(self.library, symbol):
                return ctypes.cast(getattr(self.library, symbol), ctypes.c_void_p).value
        return None

    def test_each_is_found_in_its_own_form_or_not_at_all(self):
        found = 0
        for name, symbol, version in asked_for():
            for flags, symbols in (
                (DEFAULT, [symbol]),
                (PER_THREAD, [symbol + "_ptsz", symbol + "_ptds", symbol]),
            ):
                with self.subTest(symbol=symbol, flags=flags):
                    code, address, status = self.get(name, int(version), flags)
                    # What came later is exported for newer runtimes, but not handed out.
                    is_known = int(version) <= self.newest()
                    wanted = self.exported(*symbols) if is_known else None
                    self.assertEqual(address, wanted)
                    self.assertEqual(code, 0)
                    self.assertEqual(status != 0, wanted is None)
            found += self.exported(symbol) is not None
        self.assertGreater(found, 150)

    def test_what_no_driver_has_is_not_found(self):
        self.assertEqual(self.get("cuNoSuchFunction", 12080, DEFAULT), (0, None, 1))

    def test_what_came_later_is_not_sufficient_a_version(self):
        self.assertEqual(self.get("cuStreamGetId", 11000, DEFAULT), (0, None, 2))
