//! What makes a graph one that can run.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::{Kind, OpId, Operator, Tensor, TensorId};

/// The most tensors, and the most operators: a hundred times those of the largest model that is measured here.
pub(super) const MOST: usize = 1 << 20;

/// The most bytes, nanoseconds or floating-point operations of a graph together: sums of a few such fit 64 bits.
const LARGEST: u64 = 1 << 60;

/// Why a graph cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant's doc says what its fields are")]
pub enum GraphError {
    /// More tensors or operators (`what`) than the planners are made for.
    #[error("{count} {what}, where a graph has at most {MOST}")]
    TooMany { what: &'static str, count: usize },
    /// A graph that does nothing.
    #[error("no operator: a graph has at least one")]
    Empty,
    /// A sum of bytes, times or FLOPs (`what`) that could overflow.
    #[error("the {what} of the graph together are more than 2^60")]
    TooLarge { what: &'static str },
    /// A tensor of no bytes.
    #[error("tensor {tensor} has 0 bytes: leave it out")]
    NoBytes { tensor: TensorId },
    /// A list of operator `op` has the number `tensor`, where the graph has `count` tensors.
    #[error("operator {op} has tensor {tensor}, and the graph has only {count} tensors")]
    NoSuchTensor {
        op: OpId,
        tensor: TensorId,
        count: usize,
    },
    /// Operator `op` has a tensor in two places of its lists.
    #[error(
        "operator {op} has tensor {tensor} twice: what it changes in place stands in its updates only"
    )]
    Twice { op: OpId, tensor: TensorId },
    /// Operator `op` makes a tensor that has a value before an iteration.
    #[error(
        "operator {op} makes tensor {tensor}, which is there before an iteration: an operator updates it"
    )]
    MakesGiven { op: OpId, tensor: TensorId },
    /// A tensor that the operators `first` and `second` both make.
    #[error("operators {first} and {second} both make tensor {tensor}: the second updates it")]
    MadeTwice {
        tensor: TensorId,
        first: OpId,
        second: OpId,
    },
    /// A tensor that no operator makes, and that has no value before an iteration.
    #[error("no operator makes tensor {tensor}, and it is not there before an iteration either")]
    NotMade { tensor: TensorId },
    /// Operator `op` uses a tensor before operator `maker` makes it, where another order of the operators would do.
    #[error(
        "operator {op} uses tensor {tensor}, which operator {maker} makes only later: list them in an order that can run"
    )]
    TooEarly {
        op: OpId,
        tensor: TensorId,
        maker: OpId,
    },
    /// Operators that wait for each other: each of `ops` uses a tensor of the next one, the last one of the first.
    #[error("operators {} wait for each other's tensors in a circle", circle(.ops))]
    Cycle { ops: Vec<OpId> },
    /// A workspace that operator `op` uses beside the one that makes it.
    #[error("tensor {tensor} is scratch of one operator, and operator {op} uses it too")]
    SharedScratch { tensor: TensorId, op: OpId },
}

fn circle(ops: &[OpId]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = ops.iter().take(SHOWN).map(OpId::to_string).collect();
    let more = ops.len().saturating_sub(SHOWN);
    let end = if more > 0 {
        format!(" -> ({more} more)")
    } else {
        String::new()
    };
    shown.join(" -> ") + &end
}

pub(super) fn check(tensors: &[Tensor], operators: &[Operator]) -> Result<(), GraphError> {
    let counts = [("tensors", tensors.len()), ("operators", operators.len())];
    for (what, count) in counts {
        if count > MOST {
            return Err(GraphError::TooMany { what, count });
        }
    }
    if operators.is_empty() {
        return Err(GraphError::Empty);
    }
    sum("bytes", tensors.iter().map(|tensor| tensor.bytes))?;
    sum("times", operators.iter().map(|op| op.time_ns))?;
    sum("FLOPs", operators.iter().map(|op| op.flops))?;
    sum("bytes moved", operators.iter().map(|op| op.bytes))?;
    if let Some(tensor) = tensors.iter().position(|tensor| tensor.bytes == 0) {
        let tensor = tensor as TensorId;
        return Err(GraphError::NoBytes { tensor });
    }
    let makers = makers(tensors, operators)?;
    for (op, operator) in (0..).zip(operators) {
        for tensor in operator.inputs.iter().chain(&operator.updates).copied() {
            let Some(maker) = makers[tensor as usize] else {
                continue;
            };
            if tensors[tensor as usize].kind == Kind::Scratch {
                return Err(GraphError::SharedScratch { tensor, op });
            }
            if maker >= op {
                return Err(cycle(operators, &makers).unwrap_or(GraphError::TooEarly {
                    op,
                    tensor,
                    maker,
                }));
            }
        }
    }
    Ok(())
}

fn sum(what: &'static str, mut numbers: impl Iterator<Item = u64>) -> Result<(), GraphError> {
    let sum = numbers.try_fold(0_u64, u64::checked_add);
    match sum {
        Some(sum) if sum <= LARGEST => Ok(()),
        _ => Err(GraphError::TooLarge { what }),
    }
}

/// The operator that makes each tensor; none of what is given.
fn makers(tensors: &[Tensor], operators: &[Operator]) -> Result<Vec<Option<OpId>>, GraphError> {
    let mut makers = vec![None; tensors.len()];
    let mut seen_by = vec![OpId::MAX; tensors.len()];
    for (op, operator) in (0..).zip(operators) {
        for tensor in operator.tensors() {
            let Some(seen) = seen_by.get_mut(tensor as usize) else {
                let count = tensors.len();
                return Err(GraphError::NoSuchTensor { op, tensor, count });
            };
            if *seen == op {
                return Err(GraphError::Twice { op, tensor });
            }
            *seen = op;
        }
        for tensor in operator.outputs.iter().copied() {
            if tensors[tensor as usize].kind.is_given() {
                return Err(GraphError::MakesGiven { op, tensor });
            }
            if let Some(first) = makers[tensor as usize].replace(op) {
                return Err(GraphError::MadeTwice {
                    tensor,
                    first,
                    second: op,
                });
            }
        }
    }
    let unmade =
        |(tensor, maker): (&Tensor, &Option<OpId>)| maker.is_none() && !tensor.kind.is_given();
    match tensors.iter().zip(&makers).position(unmade) {
        Some(tensor) => Err(GraphError::NotMade {
            tensor: tensor as TensorId,
        }),
        None => Ok(makers),
    }
}

/// A circle of operators that wait for each other, if there is one.
fn cycle(operators: &[Operator], makers: &[Option<OpId>]) -> Option<GraphError> {
    #[derive(Clone, Copy, PartialEq)]
    enum Visit {
        Not,
        Open,
        Done,
    }
    let needed = |op: OpId, at: usize| {
        let operator = &operators[op as usize];
        let mut read = operator.inputs.iter().chain(&operator.updates).skip(at);
        read.next().map(|tensor| makers[*tensor as usize])
    };
    let mut visits = vec![Visit::Not; operators.len()];
    // No recursion: a stranger's graph may be a chain of a million.
    let mut path: Vec<(OpId, usize)> = Vec::new();
    for from in 0..operators.len() as OpId {
        if visits[from as usize] != Visit::Not {
            continue;
        }
        visits[from as usize] = Visit::Open;
        path.push((from, 0));
        while let Some((op, at)) = path.last_mut() {
            let (of, next) = (*op, needed(*op, *at));
            *at += 1;
            match next {
                None => {
                    visits[of as usize] = Visit::Done;
                    path.pop();
                }
                Some(Some(maker)) => match visits[maker as usize] {
                    Visit::Not => {
                        visits[maker as usize] = Visit::Open;
                        path.push((maker, 0));
                    }
                    Visit::Open => {
                        let ops = path.iter().map(|(op, _)| *op);
                        let ops = ops.skip_while(|op| *op != maker).collect();
                        return Some(GraphError::Cycle { ops });
                    }
                    Visit::Done => {}
                },
                Some(None) => {}
            }
        }
    }
    None
}
