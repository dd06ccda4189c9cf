//! The members of an object and the items of a list, one after the other, each as the piece of text that it is.

use std::fmt;
use std::ops::ControlFlow;

use serde_core::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Gives the items of a list to `visit`, until that has enough.
pub(super) fn items<'t>(list: &'t RawValue, visit: impl FnMut(&'t RawValue) -> ControlFlow<()>) {
    // The text was read as a whole before: what ends the walk early is `visit`, and that is no error.
    let _ = serde_json::Deserializer::from_str(list.get()).deserialize_seq(Items(visit));
}

/// Gives the keys and values of an object to `visit`, each key as often as it is there.
pub(super) fn members<'t>(object: &'t RawValue, visit: impl FnMut(&'t RawValue, &'t RawValue)) {
    let _ = serde_json::Deserializer::from_str(object.get()).deserialize_map(Members(visit));
}

struct Items<F>(F);

impl<'t, F: FnMut(&'t RawValue) -> ControlFlow<()>> Visitor<'t> for Items<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'t>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(item) = list.next_element()? {
            if (self.0)(item).is_break() {
                return Err(A::Error::custom("enough"));
            }
        }
        Ok(())
    }
}

struct Members<F>(F);

impl<'t, F: FnMut(&'t RawValue, &'t RawValue)> Visitor<'t> for Members<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'t>>(mut self, mut object: A) -> Result<(), A::Error> {
        while let Some((key, value)) = object.next_entry()? {
            (self.0)(key, value);
        }
        Ok(())
    }
}
