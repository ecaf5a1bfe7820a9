//! The shape of one input sample.

use serde::{Deserialize, Serialize};

/// Channels, height and width of one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// Colour channels.
    pub channels: usize,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl Shape {
    /// A shape from its three extents.
    pub const fn new(channels: usize, height: usize, width: usize) -> Self {
        Self { channels, height, width }
    }

    /// Values in one channel.
    pub const fn plane(&self) -> usize {
        self.height.saturating_mul(self.width)
    }

    /// Values in one sample.
    pub const fn len(&self) -> usize {
        self.channels.saturating_mul(self.plane())
    }

    /// Whether the shape holds nothing.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Height and width of a kernel, or of one channel of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Size {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl Size {
    /// As high as wide.
    pub const fn square(side: usize) -> Self {
        Self { height: side, width: side }
    }

    /// Values that it holds.
    pub const fn area(self) -> usize {
        self.height * self.width
    }
}

impl core::fmt::Display for Shape {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}x{}x{}", self.channels, self.height, self.width)
    }
}
