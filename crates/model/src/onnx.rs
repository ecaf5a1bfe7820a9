//! A model as an ONNX graph: raw pixels or numbers go in, class scores and probabilities come out.
//!
//! The file needs no other files: the normalisation is a part of the graph, the weights are kept under
//! PyTorch's names, and the card and the class names are in the metadata.

mod format;
mod layers;
#[expect(
    unreachable_pub,
    clippy::trivially_copy_pass_by_ref,
    reason = "generated from proto/onnx.proto, which is the documentation"
)]
mod proto {
    // Committed, so that no build has to compile a code generator; `tests/generated.rs` renews it.
    include!("../proto/onnx.rs");
}

use crate::file::values;
use crate::{Card, ModelError, ModelFile};
use formant_data::Values;
use formant_numerics::{Graph, Layout, Shape};
use layers::Writer;
use prost::Message as _;
use proto::tensor_proto::DataType;
use proto::{GraphProto, ModelProto, OperatorSetIdProto, StringStringEntryProto, ValueInfoProto};

/// The set of operators: the newest that onnxruntime 1.31 takes; 27 and 28 are released, but it refuses
/// them. Every operator that is used here has had its present form since set 22 or earlier, and rten looks
/// at the number only where a form has changed.
const OPERATORS: i64 = 26;

/// The version of the format that came with that set of operators.
const FORMAT: i64 = 13;

/// A file of the format cannot be longer: its readers count in signed 32-bit numbers.
const LONGEST: u64 = i32::MAX as u64;

/// Names of what goes in and comes out.
const PIXELS: &str = "pixels";
const VALUES: &str = "values";
const LOGITS: &str = "logits";
const PROBABILITIES: &str = "probabilities";

/// The bytes of an ONNX file.
pub(crate) fn encode(file: &ModelFile, layout: &Layout) -> Result<Vec<u8>, ModelError> {
    let fail = |found: String| ModelError::Export { format: "ONNX", found };
    let card = &file.card;
    let graph = card
        .network
        .graph(card.input, card.classes.len())
        .map_err(|error| fail(error.to_string()))?;
    let too_long = |bytes: u64| {
        fail(format!(
            "its {bytes} bytes are more than the {LONGEST} that a file of that format holds"
        ))
    };
    let size = 4 * (layout.parameters() + layout.buffer_values()) as u64;
    if size > LONGEST {
        return Err(too_long(size));
    }
    let model =
        model(card, graph_of(file, layout, &graph)).map_err(|error| fail(error.to_string()))?;
    let bytes = model.encode_to_vec();
    if bytes.len() as u64 > LONGEST {
        return Err(too_long(bytes.len() as u64));
    }
    Ok(bytes)
}

fn model(card: &Card, graph: GraphProto) -> Result<ModelProto, serde_json::Error> {
    let entry = |key: &str, value: String| StringStringEntryProto {
        key: Some(key.into()),
        value: Some(value),
    };
    Ok(ModelProto {
        ir_version: Some(FORMAT),
        opset_import: vec![OperatorSetIdProto {
            domain: Some(String::new()),
            version: Some(OPERATORS),
        }],
        producer_name: Some("formant".into()),
        producer_version: Some(env!("CARGO_PKG_VERSION").into()),
        doc_string: Some(format!(
            "The {} model of the method {} in the experiment {}. Its metadata have the whole card \
             (`formant`) and the names of the classes (`classes`), both as JSON.",
            card.role.word(),
            card.method.label,
            card.experiment
        )),
        graph: Some(graph),
        metadata_props: vec![
            entry("formant", serde_json::to_string(&card.versioned())?),
            entry("classes", serde_json::to_string(&card.classes)?),
        ],
    })
}

/// What goes in: pixels, or real numbers, which are rows if they have neither height nor width.
fn input_of(card: &Card) -> ValueInfoProto {
    let Shape { channels, height, width } = card.input;
    let picture = [channels, height, width];
    match card.values {
        Values::Bytes => {
            let meaning = "Pixels as they are, 0 to 255; the graph normalises them.";
            format::value(PIXELS, DataType::Uint8, &picture, meaning.into())
        }
        Values::Floats => {
            let extents = if card.input.plane() == 1 { &picture[..1] } else { &picture };
            let meaning =
                "Numbers as they are, NaN where one is missing; the graph standardises them.";
            format::value(VALUES, DataType::Float, extents, meaning.into())
        }
    }
}

fn graph_of(file: &ModelFile, layout: &Layout, graph: &Graph) -> GraphProto {
    let card = &file.card;
    let mut writer = Writer::default();
    let input = input_of(card);
    match card.values {
        Values::Bytes => writer.normalise(PIXELS, &card.normalisation),
        Values::Floats => writer.standardise(VALUES, &card.normalisation, card.input.plane() == 1),
    }
    for node in &graph.nodes {
        writer.layer(node, &graph.shapes, node.output + 1 == graph.shapes.len());
    }
    writer.softmax(PROBABILITIES);
    for (tensor, bytes) in values(layout, &file.model) {
        writer.tensor(tensor, bytes.into_owned());
    }
    let (nodes, constants) = writer.finish();
    let classes = card.classes.len();
    GraphProto {
        node: nodes,
        name: Some(card.network.name.clone()),
        initializer: constants,
        input: vec![input],
        output: vec![
            format::value(
                LOGITS,
                DataType::Float,
                &[classes],
                "A score for each class; the largest wins.".into(),
            ),
            format::value(
                PROBABILITIES,
                DataType::Float,
                &[classes],
                "The softmax of the scores.".into(),
            ),
        ],
    }
}
