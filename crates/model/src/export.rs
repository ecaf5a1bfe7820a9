//! Models in the formats of others.

use crate::{ModelError, ModelFile, npz, onnx};

/// What a model can be written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Formant's own file, which PyTorch, JAX and others read as well.
    Safetensors,
    /// A graph that takes raw pixels, for onnxruntime and other programs that run ONNX.
    Onnx,
    /// An archive of NumPy arrays.
    Npz,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Safetensors, Self::Onnx, Self::Npz];

    /// Its name, which is also the extension of its files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Safetensors => "safetensors",
            Self::Onnx => "onnx",
            Self::Npz => "npz",
        }
    }

    /// The format of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// The bytes of a model in a format; the same for the same model.
pub fn export(file: &ModelFile, format: Format) -> Result<Vec<u8>, ModelError> {
    let network = file.card.build("the model in memory")?;
    let layout = network.layout();
    let (parameters, buffers) = (file.model.parameters.len(), file.model.buffers.len());
    if (parameters, buffers) != (layout.parameters(), layout.buffer_values()) {
        return Err(ModelError::Malformed {
            origin: "the model in memory".into(),
            found: format!(
                "it has {parameters} parameters and {buffers} buffer values, and its network has {} and {}",
                layout.parameters(),
                layout.buffer_values()
            ),
            remedy: "this is an error in the program; please report it".into(),
        });
    }
    match format {
        Format::Safetensors => crate::encode(layout, &file.card, &file.model),
        Format::Onnx => onnx::encode(file, layout),
        Format::Npz => npz::encode(file, layout),
    }
}
