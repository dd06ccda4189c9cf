//! What the witnesses of GPU memory show.
