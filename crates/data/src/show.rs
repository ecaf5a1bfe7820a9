//! A dataset and a federation as text and as pictures: what there is, and who holds how much of it.
//!
//! Everything here is a pure function; what gives a text gives one that ends with a newline.

mod font;
mod heat_map;
mod overview;
mod sheet;
mod svg;
mod table;

pub use heat_map::heat_map;
pub use overview::{ColumnSummary, class_counts, columns, overview};
pub use sheet::{SheetRows, sheet};
pub use svg::svg;
pub use table::table;

use crate::{Federation, Split};

/// Federations of more clients than this are shown in part.
const MOST_CLIENTS: usize = 40;
const FIRST_SHOWN: usize = 20;
const LAST_SHOWN: usize = 5;

/// The clients to show: all, or the first and the last, with a `None` where the others are left out.
fn shown(clients: usize) -> Vec<Option<usize>> {
    if clients <= MOST_CLIENTS {
        return (0..clients).map(Some).collect();
    }
    let last = clients - LAST_SHOWN..clients;
    (0..FIRST_SHOWN).map(Some).chain([None]).chain(last.map(Some)).collect()
}

/// The line that stands for the clients that are not [`shown`].
fn left_out(clients: usize, width: usize) -> String {
    let more = clients.saturating_sub(FIRST_SHOWN + LAST_SHOWN);
    format!("{:>width$} {more} clients are not shown\n", "...")
}

/// One line about the whole.
fn title(federation: &Federation) -> String {
    let dataset = &federation.dataset;
    let held: usize = federation.clients.iter().map(|client| client.size(Split::All)).sum();
    format!(
        "{}: {held} of {} training samples over {} clients, {} classes of {}\n",
        dataset.name,
        dataset.train.len(),
        federation.clients.len(),
        dataset.classes,
        dataset.shape
    )
}
