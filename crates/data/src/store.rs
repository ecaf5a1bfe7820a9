//! Where the numbers of samples lie: in memory, or in a mapped file.

use std::sync::Arc;

/// A row of numbers that is only read, whoever holds it.
pub(crate) enum Store<T: 'static> {
    /// In memory of its own.
    Owned(Vec<T>),
    /// In something else that lives as long, such as a mapped file.
    Lent(Arc<dyn AsRef<[T]> + Send + Sync>),
}

impl<T> Store<T> {
    /// The numbers.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[T] {
        match self {
            Self::Owned(values) => values,
            Self::Lent(values) => (**values).as_ref(),
        }
    }
}

impl<T> From<Vec<T>> for Store<T> {
    fn from(values: Vec<T>) -> Self {
        Self::Owned(values)
    }
}

impl<T: Clone> Clone for Store<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Owned(values) => Self::Owned(values.clone()),
            Self::Lent(values) => Self::Lent(values.clone()),
        }
    }
}
