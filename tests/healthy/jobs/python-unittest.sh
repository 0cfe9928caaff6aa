# Expected failures and a test that checks a logged error.
# needs: python
cat > test_job.py <<'P'
import logging, unittest
class Job(unittest.TestCase):
    @unittest.expectedFailure
    def test_fails_as_expected(self): self.assertEqual(1, 2, "AssertionError is expected")
    def test_error_logged(self):
        with self.assertLogs("job", "ERROR") as logs: logging.getLogger("job").error("RuntimeError: CUDA error: out of memory")
        self.assertIn("CUDA", logs.output[0])
    @unittest.skip("no GPU: CUDA_ERROR_NO_DEVICE")
    def test_gpu(self): pass
P
"$PY" -m unittest -v test_job
