//! The messages of the ONNX format, and short ways to make them.

use super::proto::attribute_proto::AttributeType;
use super::proto::tensor_proto::DataType;
use super::proto::tensor_shape_proto::{Dimension, dimension};
use super::proto::{
    AttributeProto, NodeProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto, type_proto,
};

/// The extent that a user chooses.
pub(super) const BATCH: &str = "batch";

/// An operator that writes one value. It is named after it, but not the same: some runtimes keep operators
/// and values in one table.
pub(super) fn node(
    op_type: &str,
    inputs: &[&str],
    output: &str,
    attribute: Vec<AttributeProto>,
) -> NodeProto {
    NodeProto {
        input: inputs.iter().map(|&input| input.to_owned()).collect(),
        output: vec![output.to_owned()],
        name: Some(format!("{output}/{op_type}")),
        op_type: Some(op_type.to_owned()),
        attribute,
    }
}

pub(super) fn integer(name: &str, value: i64) -> AttributeProto {
    AttributeProto { i: Some(value), ..attribute(name, AttributeType::Int) }
}

pub(super) fn integers(name: &str, values: &[usize]) -> AttributeProto {
    let ints = values.iter().map(|&value| value as i64).collect();
    AttributeProto { ints, ..attribute(name, AttributeType::Ints) }
}

pub(super) fn float(name: &str, value: f64) -> AttributeProto {
    AttributeProto { f: Some(value as f32), ..attribute(name, AttributeType::Float) }
}

fn attribute(name: &str, kind: AttributeType) -> AttributeProto {
    AttributeProto { name: Some(name.into()), r#type: Some(kind.into()), ..Default::default() }
}

/// A constant of floats from their bytes.
pub(super) fn floats(name: &str, shape: &[usize], bytes: Vec<u8>) -> TensorProto {
    tensor(name, shape, DataType::Float, bytes)
}

/// A constant list of integers.
pub(super) fn list(name: &str, values: &[i64]) -> TensorProto {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor(name, &[values.len()], DataType::Int64, bytes)
}

fn tensor(name: &str, shape: &[usize], kind: DataType, bytes: Vec<u8>) -> TensorProto {
    TensorProto {
        dims: shape.iter().map(|&extent| extent as i64).collect(),
        data_type: Some(kind.into()),
        name: Some(name.into()),
        raw_data: Some(bytes),
    }
}

/// An input or output: the batch, then these extents.
pub(super) fn value(
    name: &str,
    kind: DataType,
    extents: &[usize],
    meaning: String,
) -> ValueInfoProto {
    let batch = dimension::Value::DimParam(BATCH.into());
    let extents = extents.iter().map(|&extent| dimension::Value::DimValue(extent as i64));
    let dim = std::iter::once(batch)
        .chain(extents)
        .map(|value| Dimension { value: Some(value) })
        .collect();
    let tensor =
        type_proto::Tensor { elem_type: Some(kind.into()), shape: Some(TensorShapeProto { dim }) };
    ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(TypeProto { value: Some(type_proto::Value::TensorType(tensor)) }),
        doc_string: Some(meaning),
    }
}
