//! What the flat vectors of a model mean: names, shapes, ranges, body and head.

use core::ops::Range;

/// Which parameters a phase trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// Everything.
    All,
    /// All but the last linear layer.
    Body,
    /// The last linear layer.
    Head,
}

/// One named tensor inside a flat vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Dotted name, as PyTorch would call it.
    pub name: String,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Where it lies.
    pub range: Range<usize>,
    /// [`Part::Body`] or [`Part::Head`].
    pub part: Part,
}

/// The tensors of a network in the order of its flat vectors. The head comes last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    tensors: Vec<Tensor>,
    buffers: Vec<Tensor>,
}

impl Layout {
    /// Appends a parameter tensor and returns its range.
    pub(crate) fn push(
        &mut self,
        name: impl Into<String>,
        shape: &[usize],
        part: Part,
    ) -> Range<usize> {
        let from = self.parameters();
        // Saturating, like everything that a width goes into: a network that is too large is refused
        // by its size once it is complete.
        let len = shape.iter().fold(1, |len: usize, extent| len.saturating_mul(*extent));
        let range = from..from.saturating_add(len);
        self.tensors.push(Tensor {
            name: name.into(),
            shape: shape.to_vec(),
            range: range.clone(),
            part,
        });
        range
    }

    /// Appends a buffer tensor and returns its range.
    pub(crate) fn push_buffer(&mut self, name: impl Into<String>, len: usize) -> Range<usize> {
        let from = self.buffer_values();
        let range = from..from.saturating_add(len);
        self.buffers.push(Tensor {
            name: name.into(),
            shape: vec![len],
            range: range.clone(),
            part: Part::Body,
        });
        range
    }

    /// The layout of a network that somebody else computes: trainable tensors, of which the last `head` are the
    /// head's, and buffers, each with its name and its extents.
    pub fn of(
        parameters: &[(String, Vec<usize>)],
        head: usize,
        buffers: &[(String, Vec<usize>)],
    ) -> Self {
        let mut layout = Self::default();
        let body = parameters.len().saturating_sub(head);
        for (nth, (name, shape)) in parameters.iter().enumerate() {
            layout.push(name, shape, if nth < body { Part::Body } else { Part::Head });
        }
        for (name, shape) in buffers {
            let len = shape.iter().fold(1, |len: usize, extent| len.saturating_mul(*extent));
            layout.push_buffer(name, len);
            if let Some(tensor) = layout.buffers.last_mut() {
                tensor.shape.clone_from(shape);
            }
        }
        layout
    }

    /// A layout of one unnamed tensor, for problems that are not networks.
    pub fn single(len: usize) -> Self {
        let mut layout = Self::default();
        layout.push("w", &[len], Part::Body);
        layout
    }

    /// Trainable tensors, in order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Tensors of a part that hold anything, in order.
    pub(crate) fn tensors_of(&self, part: Part) -> impl Iterator<Item = &Tensor> {
        let own = self.range(part);
        self.tensors.iter().filter(move |tensor| {
            let Range { start, end } = tensor.range;
            own.start <= start && end <= own.end && start < end
        })
    }

    /// Buffer tensors, in order.
    pub fn buffers(&self) -> &[Tensor] {
        &self.buffers
    }

    /// Buffers that no honest client has below zero: the running variances of batch normalisation, by the
    /// name that they have here and in PyTorch.
    pub fn variances(&self) -> impl Iterator<Item = &Tensor> {
        self.buffers.iter().filter(|tensor| {
            tensor.name.rsplit('.').next().is_some_and(|last| last == "running_var")
        })
    }

    /// Number of trainable parameters, `d`.
    pub fn parameters(&self) -> usize {
        self.tensors.last().map_or(0, |t| t.range.end)
    }

    /// Number of buffer values.
    pub fn buffer_values(&self) -> usize {
        self.buffers.last().map_or(0, |t| t.range.end)
    }

    /// The contiguous range of a part.
    pub fn range(&self, part: Part) -> Range<usize> {
        let total = self.parameters();
        let head =
            self.tensors.iter().find(|t| t.part == Part::Head).map_or(total, |t| t.range.start);
        match part {
            Part::All => 0..total,
            Part::Body => 0..head,
            Part::Head => head..total,
        }
    }
}
