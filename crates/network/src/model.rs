//! A model as a safetensors file, which every framework reads.

use formant_numerics::{Layout, Model, Tensor};
use serde_json::{Map, Value, json};

/// The file's bytes: a header of names, shapes and places, then the numbers.
pub(crate) fn safetensors(layout: &Layout, model: &Model) -> Vec<u8> {
    let mut header = Map::new();
    let mut data: Vec<u8> = Vec::new();
    for (tensors, values) in
        [(layout.tensors(), &model.parameters), (layout.buffers(), &model.buffers)]
    {
        for Tensor { name, shape, range, .. } in tensors {
            let Some(values) = values.get(range.clone()) else { continue };
            let from = data.len();
            data.extend(values.iter().flat_map(|x| x.to_le_bytes()));
            let place =
                json!({ "dtype": "F32", "shape": shape, "data_offsets": [from, data.len()] });
            header.insert(name.clone(), place);
        }
    }
    let mut text = Value::Object(header).to_string();
    // The numbers begin at a multiple of eight.
    while !text.len().is_multiple_of(8) {
        text.push(' ');
    }
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes.extend(data);
    bytes
}
