//! A mixed-integer linear program as plain data, in the form that highs.py reads.

use serde::Serialize;

/// Minimises cost·x over x ≥ 0, with each row's sum at most its bound.
#[derive(Default, Serialize)]
pub(crate) struct Program {
    /// The coefficient of each column in the objective.
    pub(crate) cost: Vec<f64>,
    /// The upper bound of each column; `None`, JSON's null, where there is none.
    pub(crate) upper: Vec<Option<f64>>,
    /// Whether each column takes whole numbers only.
    pub(crate) integer: Vec<bool>,
    /// The constraints.
    pub(crate) rows: Rows,
}

/// A sparse matrix by rows: row r has the coefficients `value[start[r]..start[r + 1]]`, in the
/// columns `index[start[r]..start[r + 1]]`.
#[derive(Serialize)]
pub(crate) struct Rows {
    /// Where each row begins, and where the last one ends.
    pub(crate) start: Vec<usize>,
    /// The column of each coefficient.
    pub(crate) index: Vec<usize>,
    /// The coefficients.
    pub(crate) value: Vec<f64>,
    /// The most that each row's sum may be.
    pub(crate) bound: Vec<f64>,
}

impl Default for Rows {
    fn default() -> Self {
        Self {
            start: vec![0],
            index: Vec::new(),
            value: Vec::new(),
            bound: Vec::new(),
        }
    }
}

impl Program {
    /// Adds a column of no cost; returns its index.
    pub(crate) fn column(&mut self, upper: Option<f64>, integer: bool) -> usize {
        self.cost.push(0.0);
        self.upper.push(upper);
        self.integer.push(integer);
        self.cost.len() - 1
    }

    /// Adds the row Σ coefficient·column ≤ `bound` over `terms` (column, coefficient), each column
    /// at most once.
    pub(crate) fn at_most(&mut self, terms: impl IntoIterator<Item = (usize, f64)>, bound: f64) {
        let rows = &mut self.rows;
        // HiGHS warns of a zero that is stored, and a warning ends the comparison.
        for (column, coefficient) in terms.into_iter().filter(|&(_, c)| c != 0.0) {
            rows.index.push(column);
            rows.value.push(coefficient);
        }
        rows.start.push(rows.index.len());
        rows.bound.push(bound);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_no_infinity_and_every_bit() {
        let third = 1.0_f64 / 3.0;
        let mut program = Program::default();
        let k = program.column(Some(third), true);
        let blocking = program.column(None, false);
        program.at_most([(k, 1e-300), (blocking, 0.0)], -third);
        program.at_most([(k, -0.1), (blocking, 1.0)], 20.0);
        assert_eq!(
            serde_json::to_string(&program).unwrap(),
            "{\"cost\":[0.0,0.0],\"upper\":[0.3333333333333333,null],\"integer\":[true,false],\
             \"rows\":{\"start\":[0,1,3],\"index\":[0,0,1],\"value\":[1e-300,-0.1,1.0],\
             \"bound\":[-0.3333333333333333,20.0]}}"
        );
    }
}
