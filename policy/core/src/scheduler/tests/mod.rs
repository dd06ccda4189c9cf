//! All tests of the scheduler use its public interface alone: tests/scheduler.
