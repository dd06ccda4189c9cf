"""numba-cuda with arrays of its own, which end after their context does."""

import gc

import numpy
from numba import cuda

host = numpy.arange(100_000)
array, bare = cuda.to_device(host), cuda.device_array(5_000)
pinned, managed = cuda.pinned_array(100), cuda.managed_array(10)
stream, event = cuda.stream(), cuda.event()
event.record(stream)
event.synchronize()
for _ in range(10):
    assert (array.copy_to_host() == host).all()
    host += 1
    array.copy_to_device(host)
cuda.close()
# What it still holds is gone with the context, which must not be an error.
del array, bare, pinned, managed, stream, event
gc.collect()
print("closed")
