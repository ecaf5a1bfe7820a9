//! How a row of a table becomes a sample.

use serde::{Deserialize, Serialize};

/// The columns of a table that are features, in the order of the features.
///
/// A number is a feature of its own; a category has one for each of its values, 1 for the row's own and 0
/// for the others. A number that is missing is the mean of its column; a category that is missing or was
/// never seen is 0 for all its values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    /// The features' columns.
    pub columns: Vec<Column>,
    /// The column of the labels.
    pub label: String,
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The values of a category, sorted; without them, the column has numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub categories: Option<Vec<String>>,
}

impl Schema {
    /// Number of features.
    pub fn width(&self) -> usize {
        self.columns.iter().map(Column::width).sum()
    }

    /// For each feature, whether it is a number, which is standardised; a category's are not.
    pub fn numeric(&self) -> Vec<bool> {
        let columns = self.columns.iter();
        columns.flat_map(|c| vec![c.categories.is_none(); c.width()]).collect()
    }
}

impl Column {
    /// Number of features that it makes.
    pub fn width(&self) -> usize {
        self.categories.as_ref().map_or(1, Vec::len)
    }
}
