//! The file itself: safetensors with PyTorch's names, shapes and types, and the card in its header.
//!
//! The header has one entry, `formant`: the card as JSON, whose last member `check` is a hash of the
//! rest of the card and of every tensor. What the check does not cover (names, shapes and places of
//! the tensors) is compared with the card's own network.

use crate::{Card, ModelError};
use formant_numerics::{Layout, Model, Tensor};
use safetensors::tensor::{TensorView, serialize};
use safetensors::{Dtype, SafeTensors};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

/// The header's entry.
const ENTRY: &str = "formant";

/// What precedes the hash at the end of the card.
const CHECK: &str = ",\"check\":\"";

/// The longest header that is read.
const LONGEST: u64 = 100_000_000;

/// PyTorch's norms count their batches; nothing reads it unless the momentum is a plain average.
const COUNTER: &str = "num_batches_tracked";

/// A model and its card.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFile {
    /// What it is.
    pub card: Card,
    /// Its parameters and buffers, in the order of its network's layout.
    pub model: Model,
}

impl ModelFile {
    /// Reads a file and verifies it.
    pub fn read(path: &Path) -> Result<Self, ModelError> {
        let bytes = std::fs::read(path).map_err(|source| ModelError::file("read", path, source))?;
        Self::from_bytes(&bytes, &path.display().to_string())
    }

    /// Reads a file's content and verifies it; `origin` is what an error calls it.
    pub fn from_bytes(bytes: &[u8], origin: &str) -> Result<Self, ModelError> {
        let refuse = |found: String, remedy: &str| ModelError::Malformed {
            origin: origin.into(),
            found,
            remedy: remedy.into(),
        };
        let again = "take another copy of the file, or export the model again";
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| {
            let other = match bytes {
                [b'P', b'K', ..] => "it is an archive, such as NumPy's",
                [0x08, ..] => "it is perhaps an ONNX graph",
                _ => {
                    return refuse(
                        format!("it is not a complete safetensors file ({error})"),
                        again,
                    );
                }
            };
            refuse(other.into(), "give the safetensors file that it was exported from")
        })?;
        let text = header.metadata().as_ref().and_then(|entries| entries.get(ENTRY));
        let text = text.ok_or_else(|| {
            refuse(
                format!("its header has no entry `{ENTRY}`, so its network is not known"),
                "use a file that Formant has written: `formant run` keeps models in RUN/models",
            )
        })?;
        let (card_text, check) = unsealed(text)
            .ok_or_else(|| refuse("the card in its header has no checksum".into(), again))?;
        let card: Card = serde_json::from_str(text).map_err(|error| {
            refuse(format!("the card in its header is not readable ({error})"), again)
        })?;
        let network = card.build(origin)?;
        let values = (network.layout().parameters() + network.layout().buffer_values()) as u64;
        if values.saturating_mul(4) > bytes.len() as u64 {
            // Before memory is taken for them.
            let found = format!("its card says {values} values, and it has {} bytes", bytes.len());
            return Err(refuse(found, again));
        }
        let tensors = SafeTensors::deserialize(bytes).map_err(|error| {
            refuse(format!("it is not a complete safetensors file ({error})"), again)
        })?;
        let model = unpack(&tensors, network.layout()).map_err(|found| refuse(found, again))?;
        let found = hash(card_text, network.layout(), &model);
        if check != found {
            return Err(refuse(
                format!("its checksum is {check}, and its content gives {found}"),
                again,
            ));
        }
        if !model.is_finite() {
            let found = "it holds values that are not finite".into();
            return Err(refuse(found, "train again: the model has diverged"));
        }
        Ok(Self { card, model })
    }
}

/// The bytes of a model file. `layout` is that of the card's network.
pub fn encode(layout: &Layout, card: &Card, model: &Model) -> Result<Vec<u8>, ModelError> {
    let fail = |found: String| ModelError::Malformed {
        origin: "the model in memory".into(),
        found,
        remedy: "this is an error in the program; please report it".into(),
    };
    let text = serde_json::to_string(&card.versioned()).map_err(|error| fail(error.to_string()))?;
    let text = text.strip_suffix('}').unwrap_or(&text);
    let sealed = format!("{text}{CHECK}{}\"}}", hash(text, layout, model));
    let counter = 0_i64.to_le_bytes();
    let mut views = Vec::new();
    let mut view = |name: String, dtype, shape: &[usize], bytes| {
        TensorView::new(dtype, shape.to_vec(), bytes)
            .map(|tensor| views.push((name, tensor)))
            .map_err(|error| fail(error.to_string()))
    };
    let values: Vec<_> = values(layout, model).collect();
    for (tensor, bytes) in &values {
        view(tensor.name.clone(), Dtype::F32, &tensor.shape, bytes)?;
    }
    for name in counters(layout) {
        view(name, Dtype::I64, &[], &counter)?;
    }
    let header = HashMap::from([(ENTRY.to_owned(), sealed)]);
    serialize(views, Some(header)).map_err(|error| fail(error.to_string()))
}

/// Reads the card of a file and nothing else; nothing is verified.
pub fn read_card(path: &Path) -> Result<Card, ModelError> {
    let fail = |source| ModelError::file("read", path, source);
    let mut file = File::open(path).map_err(fail)?;
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(fail)?;
    let mut header = Vec::new();
    file.take(u64::from_le_bytes(length).min(LONGEST)).read_to_end(&mut header).map_err(fail)?;
    let header: serde_json::Value = serde_json::from_slice(&header).unwrap_or_default();
    let text = header["__metadata__"][ENTRY].as_str().unwrap_or_default();
    serde_json::from_str(text).map_err(|error| ModelError::Malformed {
        origin: path.display().to_string(),
        found: format!("the card in its header is not readable ({error})"),
        remedy: "use a file that Formant has written".into(),
    })
}

/// How long a model file with such a card is at most.
pub fn encoded_len(layout: &Layout, card: &Card) -> u64 {
    let text = serde_json::to_string(card).unwrap_or_default();
    // In the header it stands as text in quotes.
    let card = text.len() + text.matches(['"', '\\']).count() + 256;
    let values = 4 * (layout.parameters() + layout.buffer_values());
    let digits = |number: usize| number.to_string().len();
    // `"name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},`
    let entry = |name: &str, shape: &[usize]| {
        let shape: usize = shape.iter().map(|extent| digits(*extent) + 1).sum();
        name.len() + shape + 2 * digits(2 * values) + 52
    };
    let tensors = layout.tensors().iter().chain(layout.buffers());
    let tensors: usize = tensors.map(|tensor| entry(&tensor.name, &tensor.shape)).sum();
    let counters: usize = counters(layout).map(|name| entry(&name, &[]) + 8).sum();
    (values + tensors + counters + card) as u64
}

/// Every tensor of the layout with its bytes, parameters first.
pub(crate) fn values<'m>(
    layout: &'m Layout,
    model: &'m Model,
) -> impl Iterator<Item = (&'m Tensor, Cow<'m, [u8]>)> {
    let parameters = layout.tensors().iter().map(|tensor| (tensor, &model.parameters));
    let buffers = layout.buffers().iter().map(|tensor| (tensor, &model.buffers));
    parameters.chain(buffers).map(|(tensor, values)| {
        let values = values.get(tensor.range.clone()).unwrap_or_default();
        (tensor, little_endian(values))
    })
}

fn little_endian(values: &[f32]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        Cow::Borrowed(bytemuck::cast_slice(values))
    } else {
        Cow::Owned(values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }
}

/// The counters that PyTorch's batch norms have beside their running statistics.
pub(crate) fn counters(layout: &Layout) -> impl Iterator<Item = String> {
    let norms = layout.buffers().iter().filter_map(|b| b.name.strip_suffix("running_mean"));
    norms.map(|norm| format!("{norm}{COUNTER}"))
}

/// The card without its check, and the check.
fn unsealed(text: &str) -> Option<(&str, &str)> {
    let (card, check) = text.rsplit_once(CHECK)?;
    Some((card, check.strip_suffix("\"}")?))
}

fn hash(card: &str, layout: &Layout, model: &Model) -> String {
    let mut hash = Xxh3::new();
    hash.update(card.as_bytes());
    for (_, bytes) in values(layout, model) {
        hash.update(&bytes);
    }
    format!("{:032x}", hash.digest128())
}

/// The tensors in the order of the layout; all of them and no others.
fn unpack(tensors: &SafeTensors<'_>, layout: &Layout) -> Result<Model, String> {
    let mut model = Model {
        parameters: Vec::with_capacity(layout.parameters()),
        buffers: Vec::with_capacity(layout.buffer_values()),
    };
    for (expected, values) in
        [(layout.tensors(), &mut model.parameters), (layout.buffers(), &mut model.buffers)]
    {
        for Tensor { name, shape, .. } in expected {
            let bytes = tensor(tensors, name, Dtype::F32, shape)?;
            let (words, _) = bytes.as_chunks::<4>();
            values.extend(words.iter().map(|word| f32::from_le_bytes(*word)));
        }
    }
    let mut expected = layout.tensors().len() + layout.buffers().len();
    for name in counters(layout) {
        tensor(tensors, &name, Dtype::I64, &[])?;
        expected += 1;
    }
    if tensors.len() != expected {
        return Err(format!("it holds {} tensors, and its network has {expected}", tensors.len()));
    }
    Ok(model)
}

fn tensor<'d>(
    tensors: &SafeTensors<'d>,
    name: &str,
    dtype: Dtype,
    shape: &[usize],
) -> Result<&'d [u8], String> {
    let found = tensors.tensor(name).map_err(|_| format!("the tensor {name} is missing"))?;
    if found.dtype() != dtype || found.shape() != shape {
        return Err(format!(
            "the tensor {name} is {} of {:?} where its network has {dtype} of {shape:?}",
            found.dtype(),
            found.shape()
        ));
    }
    Ok(found.data())
}
