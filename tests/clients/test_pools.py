"""cuda-bindings: stream-ordered allocation, pools, managed memory, arrays and shared handles."""

import ctypes
import os
import unittest

from cuda.bindings import driver as cuda

from machine import GRANULE, MIB, Context, done, used_bytes

Code = cuda.CUresult
Attribute = cuda.CUmemPool_attribute


class Pools(unittest.TestCase):
    def setUp(self):
        context = Context()
        self.device = context.__enter__()
        self.addCleanup(context.__exit__)
        flags = cuda.CUstream_flags.CU_STREAM_NON_BLOCKING
        self.stream = done(cuda.cuStreamCreate(flags))
        self.addCleanup(cuda.cuStreamDestroy, self.stream)
        self.before = used_bytes()

    def pool_properties(self, handle_type=0):
        properties = cuda.CUmemPoolProps()
        properties.allocType = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.handleTypes = cuda.CUmemAllocationHandleType(handle_type)
        properties.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = int(self.device)
        return properties

    def value(self, pool, attribute):
        return int(done(cuda.cuMemPoolGetAttribute(pool, attribute)))

    def test_memory_comes_and_goes_in_stream_order(self):
        data, back = os.urandom(3 * MIB), bytearray(3 * MIB)
        address = done(cuda.cuMemAllocAsync(len(data), self.stream))
        done(cuda.cuMemcpyHtoDAsync(address, data, len(data), self.stream))
        done(cuda.cuMemcpyDtoHAsync(place(back), address, len(data), self.stream))
        done(cuda.cuMemFreeAsync(address, self.stream))
        again = done(cuda.cuMemAllocAsync(len(data), self.stream))
        self.assertEqual(int(again), int(address), "the stream's order allows it")
        done(cuda.cuMemFreeAsync(again, self.stream))
        self.assertEqual(used_bytes(), self.before + 4 * MIB)
        done(cuda.cuStreamSynchronize(self.stream))
        self.assertEqual(used_bytes(), self.before, "the threshold is 0")
        self.assertEqual(bytes(back), data)
        self.assertEqual(cuda.cuMemFreeAsync(again, self.stream)[0], Code.CUDA_ERROR_INVALID_VALUE)

    def test_a_pool_keeps_what_its_threshold_says(self):
        pool = done(cuda.cuMemPoolCreate(self.pool_properties()))
        threshold = cuda.cuuint64_t(1 << 62)
        attribute = Attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        done(cuda.cuMemPoolSetAttribute(pool, attribute, threshold))
        address = done(cuda.cuMemAllocFromPoolAsync(5 * MIB, pool, self.stream))
        handle = cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE
        self.assertEqual(int(done(cuda.cuPointerGetAttribute(handle, address))), int(pool))
        self.assertEqual(self.value(pool, Attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 5 * MIB)
        done(cuda.cuMemFreeAsync(address, self.stream))
        done(cuda.cuCtxSynchronize())
        self.assertEqual(self.value(pool, Attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 6 * MIB)
        done(cuda.cuMemPoolTrimTo(pool, 0))
        self.assertEqual(self.value(pool, Attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0)
        self.assertEqual(self.value(pool, Attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 6 * MIB)
        done(cuda.cuMemPoolDestroy(pool))
        # One that could be exported can be made; exporting pools is not modelled.
        pool = done(cuda.cuMemPoolCreate(self.pool_properties(1)))
        kind = cuda.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        exported = cuda.cuMemPoolExportToShareableHandle(pool, kind, 0)
        self.assertEqual(exported[0], Code.CUDA_ERROR_NOT_SUPPORTED)
        done(cuda.cuMemPoolDestroy(pool))

    def test_the_device_has_pools(self):
        default = done(cuda.cuDeviceGetDefaultMemPool(self.device))
        self.assertEqual(int(done(cuda.cuDeviceGetMemPool(self.device))), int(default))
        self.assertEqual(cuda.cuMemPoolDestroy(default)[0], Code.CUDA_ERROR_INVALID_VALUE)
        mine = done(cuda.cuMemPoolCreate(self.pool_properties()))
        done(cuda.cuDeviceSetMemPool(self.device, mine))
        address = done(cuda.cuMemAllocAsync(100, self.stream))
        self.assertEqual(self.value(mine, Attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 512)
        done(cuda.cuMemFreeAsync(address, self.stream))
        done(cuda.cuMemPoolDestroy(mine))
        self.assertEqual(int(done(cuda.cuDeviceGetMemPool(self.device))), int(default))

    def test_managed_memory_is_the_hosts_too(self):
        attach = cuda.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL
        address = done(cuda.cuMemAllocManaged(MIB, attach))
        self.assertEqual(used_bytes(), self.before + GRANULE)
        done(cuda.cuMemPrefetchAsync(address, MIB, self.device, self.stream))
        done(cuda.cuMemsetD8Async(address, 7, MIB, self.stream))
        done(cuda.cuStreamSynchronize(self.stream))
        self.assertEqual(ctypes.string_at(int(address), MIB), b"\7" * MIB)
        managed = cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_IS_MANAGED
        self.assertTrue(done(cuda.cuPointerGetAttribute(managed, address)))
        done(cuda.cuMemFree(address))
        self.assertEqual(used_bytes(), self.before)

    def test_rows_go_through_an_array(self):
        wanted = cuda.CUDA_ARRAY_DESCRIPTOR()
        wanted.Width, wanted.Height, wanted.NumChannels = 50, 20, 1
        wanted.Format = cuda.CUarray_format.CU_AD_FORMAT_FLOAT
        array = done(cuda.cuArrayCreate(wanted))
        data, back = os.urandom(50 * 4 * 20), bytearray(50 * 4 * 20)
        held = bytearray(data)
        copy = cuda.CUDA_MEMCPY2D()
        copy.srcMemoryType, copy.dstMemoryType = cuda.CUmemorytype.CU_MEMORYTYPE_HOST, cuda.CUmemorytype.CU_MEMORYTYPE_ARRAY
        copy.srcHost, copy.srcPitch, copy.dstArray = place(held), 200, array
        copy.WidthInBytes, copy.Height = 200, 20
        done(cuda.cuMemcpy2D(copy))
        copy = cuda.CUDA_MEMCPY2D()
        copy.srcMemoryType, copy.dstMemoryType = cuda.CUmemorytype.CU_MEMORYTYPE_ARRAY, cuda.CUmemorytype.CU_MEMORYTYPE_HOST
        copy.dstHost, copy.dstPitch, copy.srcArray = place(back), 200, array
        copy.WidthInBytes, copy.Height = 200, 20
        done(cuda.cuMemcpy2D(copy))
        self.assertEqual(bytes(back), data)
        self.assertEqual(done(cuda.cuArrayGetDescriptor(array)).Height, 20)
        done(cuda.cuArrayDestroy(array))
        self.assertEqual(used_bytes(), self.before)

    def test_a_descriptor_holds_memory(self):
        properties = cuda.CUmemAllocationProp()
        properties.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = int(self.device)
        kind = cuda.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        properties.requestedHandleTypes = kind
        handle = done(cuda.cuMemCreate(GRANULE, properties, 0))
        told = done(cuda.cuMemGetAllocationPropertiesFromHandle(handle))
        self.assertEqual(told.requestedHandleTypes, kind)
        descriptor = int(done(cuda.cuMemExportToShareableHandle(handle, kind, 0)))
        done(cuda.cuMemRelease(handle))
        self.assertEqual(used_bytes(), self.before + GRANULE)
        imported = done(cuda.cuMemImportFromShareableHandle(descriptor, kind))
        os.close(descriptor)
        self.assertEqual(used_bytes(), self.before + GRANULE)
        done(cuda.cuMemRelease(imported))
        self.assertEqual(used_bytes(), self.before)


def place(buffer):
    """The address of a buffer's bytes."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
