"""cuda-bindings: captures and graphs."""

import ctypes
import unittest

from cuda.bindings import driver as cuda

from machine import MIB, Context, done, used_bytes

Code = cuda.CUresult
GLOBAL = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
RELAXED = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED


class Graphs(unittest.TestCase):
    def setUp(self):
        context = Context()
        self.device = context.__enter__()
        self.addCleanup(context.__exit__)
        flags = cuda.CUstream_flags.CU_STREAM_NON_BLOCKING
        self.stream = done(cuda.cuStreamCreate(flags))
        self.address = done(cuda.cuMemAlloc(MIB))
        self.addCleanup(cuda.cuMemFree, self.address)
        done(cuda.cuMemsetD8(self.address, 0, MIB))
        done(cuda.cuCtxSynchronize())

    def byte(self):
        back = bytearray(1)
        place = ctypes.addressof(ctypes.c_char.from_buffer(back))
        done(cuda.cuMemcpyDtoH(place, self.address, 1))
        return back[0]

    def test_a_capture_is_launched_as_a_graph(self):
        done(cuda.cuStreamBeginCapture(self.stream, GLOBAL))
        done(cuda.cuMemsetD8Async(self.address, 5, MIB, self.stream))
        status, _, graph, nodes, count = done(cuda.cuStreamGetCaptureInfo(self.stream))[:5]
        self.assertEqual(status, cuda.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE)
        captured = done(cuda.cuStreamEndCapture(self.stream))
        self.assertEqual(int(captured), int(graph))
        self.assertEqual(self.byte(), 0)
        executable = done(cuda.cuGraphInstantiate(captured, 0))
        done(cuda.cuGraphUpload(executable, self.stream))
        done(cuda.cuGraphLaunch(executable, self.stream))
        done(cuda.cuStreamSynchronize(self.stream))
        self.assertEqual(self.byte(), 5)
        nodes, count = done(cuda.cuGraphGetNodes(captured, 4))
        kind = done(cuda.cuGraphNodeGetType(nodes[0]))
        self.assertEqual((count, kind), (1, cuda.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMSET))
        done(cuda.cuGraphExecDestroy(executable))
        done(cuda.cuGraphDestroy(captured))

    def test_what_a_capture_forbids_breaks_it(self):
        done(cuda.cuStreamBeginCapture(self.stream, GLOBAL))
        refused = Code.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
        self.assertEqual(cuda.cuMemAlloc(MIB)[0], refused)
        ended = cuda.cuStreamEndCapture(self.stream)
        self.assertEqual(ended[0], Code.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
        done(cuda.cuStreamBeginCapture(self.stream, RELAXED))
        done(cuda.cuMemFree(done(cuda.cuMemAlloc(MIB))))
        self.assertEqual(cuda.cuStreamSynchronize(self.stream)[0], refused)
        self.assertNotEqual(cuda.cuStreamEndCapture(self.stream)[0], Code.CUDA_SUCCESS)

    def test_a_graph_is_built_and_allocates(self):
        before = used_bytes()
        graph = done(cuda.cuGraphCreate(0))
        wanted = cuda.CUDA_MEM_ALLOC_NODE_PARAMS()
        wanted.poolProps.allocType = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        wanted.poolProps.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        wanted.poolProps.location.id = int(self.device)
        wanted.bytesize = 3 * MIB
        node = done(cuda.cuGraphAddMemAllocNode(graph, None, 0, wanted))
        memory = wanted.dptr
        done(cuda.cuGraphAddMemFreeNode(graph, [node], 1, memory))
        executable = done(cuda.cuGraphInstantiate(graph, 0))
        self.assertEqual(used_bytes(), before)
        done(cuda.cuGraphLaunch(executable, self.stream))
        done(cuda.cuStreamSynchronize(self.stream))
        self.assertEqual(used_bytes(), before + 4 * MIB)
        done(cuda.cuDeviceGraphMemTrim(self.device))
        self.assertEqual(used_bytes(), before)
        done(cuda.cuGraphExecDestroy(executable))
        done(cuda.cuGraphDestroy(graph))
