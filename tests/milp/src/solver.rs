//! HiGHS in a Python process: highs.py answers each program, one line of JSON for one.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::child::{Child, ChildError};
use crate::program::Program;
use crate::protocol::{Question, Reply, Solved, Status};

/// Given to the interpreter as text, so that the binary needs no file of the repository.
const SCRIPT: &str = include_str!("../highs.py");
/// The longest wait for an answer: several times HiGHS's time limit, since a busy machine may stop
/// either process.
const PATIENCE: Duration = Duration::from_secs(90);
/// Characters of nonsense that an error shows.
const EXCERPT: usize = 200;

/// Why HiGHS gives no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SolverError {
    /// The process gives no answer.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// highs.py lacks something, or HiGHS refuses something; the text is that of highs.py.
    #[error("{0}")]
    Failed(String),
    /// The answer is none that highs.py gives.
    #[error("not an answer of highs.py ({why}): {line}; does --python name a Python interpreter?")]
    Nonsense {
        /// What is wrong.
        why: String,
        /// The beginning of the answer.
        line: String,
    },
}

/// A process with HiGHS, for any number of programs.
pub(crate) struct Solver {
    child: Child,
    version: String,
}

impl Solver {
    /// Starts highs.py in the interpreter `python`, which must have what requirements.txt names.
    pub(crate) fn start(python: &Path) -> Result<Self, SolverError> {
        let mut command = Command::new(python);
        command.args(["-c", SCRIPT]);
        Self::greet(Child::start(command, PATIENCE)?)
    }

    fn greet(mut child: Child) -> Result<Self, SolverError> {
        let line = child.answer()?;
        match parse(&line)? {
            Reply::Ready { version } => Ok(Self { child, version }),
            Reply::Solved(_) => Err(nonsense("an answer before any question", &line)),
            Reply::Failed(text) => Err(SolverError::Failed(text)),
        }
    }

    /// HiGHS's version.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Solves `program`.
    pub(crate) fn solve(&mut self, program: &Program) -> Result<Solved, SolverError> {
        let question = serde_json::to_string(&Question::new(program));
        let question = question.map_err(|error| SolverError::Failed(error.to_string()))?;
        let line = self.child.ask(format!("{question}\n").into_bytes())?;
        let solved = match parse(&line)? {
            Reply::Solved(solved) => solved,
            Reply::Ready { .. } => return Err(nonsense("a second greeting", &line)),
            Reply::Failed(text) => return Err(SolverError::Failed(text)),
        };
        let columns = match solved.status {
            Status::Optimal => program.cost.len(),
            Status::Infeasible | Status::Unknown => 0,
        };
        if solved.values.len() != columns {
            let why = format!("{} values instead of {columns}", solved.values.len());
            return Err(nonsense(&why, &line));
        }
        let within = |(value, upper): (&f64, &Option<f64>)| {
            (-0.5..=upper.unwrap_or(f64::INFINITY) + 0.5).contains(value)
        };
        if !solved.values.iter().zip(&program.upper).all(within) {
            return Err(nonsense("a value beyond its column's bounds", &line));
        }
        Ok(solved)
    }
}

fn parse(line: &[u8]) -> Result<Reply, SolverError> {
    serde_json::from_slice(line).map_err(|error| nonsense(&error.to_string(), line))
}

fn nonsense(why: &str, line: &[u8]) -> SolverError {
    let line = String::from_utf8_lossy(line);
    SolverError::Nonsense {
        why: why.into(),
        line: line.trim_end().chars().take(EXCERPT).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const READY: &str = r#"{"ready": {"version": "1.2.3"}}"#;

    /// A child that greets by `greeting` and gives `answer` to each program.
    fn fake(greeting: &str, answer: &str) -> Result<Solver, SolverError> {
        let mut command = Command::new("sh");
        let script = "echo \"$1\"; while read -r line; do echo \"$2\"; done";
        command.args(["-c", script, "sh", greeting, answer]);
        Solver::greet(Child::start(command, Duration::from_secs(20))?)
    }

    fn program() -> Program {
        let mut program = Program::default();
        program.column(Some(7.0), true);
        program.column(None, false);
        program
    }

    #[test]
    fn an_answer_is_taken() {
        let answer = r#"{"solved": {"status": "optimal", "values": [3.0, 0.5], "seconds": 0.25}}"#;
        let mut solver = fake(READY, answer).unwrap();
        assert_eq!(solver.version(), "1.2.3");
        for _ in 0..2 {
            let expected = Solved {
                status: Status::Optimal,
                values: vec![3.0, 0.5],
                time: Duration::from_millis(250),
            };
            assert_eq!(solver.solve(&program()).unwrap(), expected);
        }
    }

    #[test]
    fn nonsense_is_refused_and_shown() {
        for answer in [
            "HiGHS 1.15.1",
            "",
            READY,
            r#"{"solved": {"status": "optimal", "values": [3.0], "seconds": 0.25}}"#,
            r#"{"solved": {"status": "infeasible", "values": [3.0, 0.5], "seconds": 0.25}}"#,
            r#"{"solved": {"status": "optimal", "values": [3.0, NaN], "seconds": 0.25}}"#,
            r#"{"solved": {"status": "optimal", "values": [3.0, 1e999], "seconds": 0.25}}"#,
            r#"{"solved": {"status": "optimal", "values": [8.0, 0.5], "seconds": 0.25}}"#,
            r#"{"solved": {"status": "optimal", "values": [3.0, -0.6], "seconds": 0.25}}"#,
            r#"{"solved": {"status": "optimal", "values": [3.0, 0.5], "seconds": -1}}"#,
            r#"{"solved": {"status": "perfect", "values": [3.0, 0.5], "seconds": 0.25}}"#,
            r#"{"solved": {"status": "optimal", "values": [3.0, 0.5]}}"#,
        ] {
            let error = fake(READY, answer).unwrap().solve(&program()).unwrap_err();
            assert!(matches!(error, SolverError::Nonsense { .. }), "{error}");
            assert!(error.to_string().contains(answer), "{error}");
        }
    }

    #[test]
    fn a_greeting_that_is_none_is_refused() {
        let answer = r#"{"solved": {"status": "infeasible", "values": [], "seconds": 0}}"#;
        for greeting in ["Python 3.11.7", answer] {
            let error = fake(greeting, "").err().unwrap();
            assert!(matches!(error, SolverError::Nonsense { .. }), "{error}");
        }
    }

    #[test]
    fn what_the_child_cannot_do_is_its_own_text() {
        let failed = r#"{"failed": "HiGHS does not take threads"}"#;
        let at_once = fake(failed, "").err().unwrap();
        let later = fake(READY, failed).unwrap().solve(&program()).unwrap_err();
        for error in [at_once, later] {
            assert_eq!(error.to_string(), "HiGHS does not take threads");
        }
    }

    /// highs.py itself, in an interpreter that ignores the packages installed for it.
    #[test]
    fn a_missing_highspy_is_named_with_what_to_do() {
        let mut command = Command::new("python3");
        command.args(["-I", "-S", "-c", SCRIPT]);
        let child = match Child::start(command, PATIENCE) {
            Err(ChildError::Start { source, .. }) => {
                // Not by a macro, whose words a test that passes keeps to itself.
                let _ = writeln!(
                    std::io::stderr(),
                    "SKIPPED a_missing_highspy_is_named: python3 cannot be started: {source}"
                );
                return;
            }
            child => child.unwrap(),
        };
        let text = Solver::greet(child).err().unwrap().to_string();
        for part in ["python", "highspy", "requirements.txt", "--python"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
