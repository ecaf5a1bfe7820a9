//! The few messages of TensorFlow's `event.proto`, `summary.proto` and `tensor.proto` that an event file needs.

use prost::Message;

/// One record.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Event {
    #[prost(double, tag = "1")]
    pub(crate) wall_time: f64,
    #[prost(int64, tag = "2")]
    pub(crate) step: i64,
    #[prost(string, optional, tag = "3")]
    pub(crate) file_version: Option<String>,
    #[prost(message, optional, tag = "5")]
    pub(crate) summary: Option<Summary>,
}

/// Values of one step.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Summary {
    #[prost(message, repeated, tag = "1")]
    pub(crate) value: Vec<Value>,
}

/// A scalar or a text under its tag.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Value {
    #[prost(string, tag = "1")]
    pub(crate) tag: String,
    /// `simple_value` in TensorFlow's words.
    #[prost(float, optional, tag = "2")]
    pub(crate) number: Option<f32>,
    #[prost(message, optional, tag = "8")]
    pub(crate) tensor: Option<Tensor>,
    #[prost(message, optional, tag = "9")]
    pub(crate) metadata: Option<Metadata>,
}

/// Which part of TensorBoard shows a value.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metadata {
    #[prost(message, optional, tag = "1")]
    pub(crate) plugin_data: Option<PluginData>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PluginData {
    #[prost(string, tag = "1")]
    pub(crate) plugin_name: String,
}

/// Texts are tensors of one string.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Tensor {
    #[prost(int32, tag = "1")]
    pub(crate) dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) shape: Option<Shape>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub(crate) string_val: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Shape {
    #[prost(message, repeated, tag = "2")]
    pub(crate) dim: Vec<Dimension>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Dimension {
    #[prost(int64, tag = "1")]
    pub(crate) size: i64,
}

/// `DT_STRING` of TensorFlow's `types.proto`.
const STRING: i32 = 7;

impl Value {
    /// A scalar; TensorBoard keeps these in single precision.
    pub(super) fn scalar(tag: &str, value: f64) -> Self {
        Self { tag: tag.to_owned(), number: Some(value as f32), ..Self::default() }
    }

    /// A text in Markdown.
    pub(super) fn text(tag: &str, text: &str) -> Self {
        let tensor = Tensor {
            dtype: STRING,
            shape: Some(Shape { dim: vec![Dimension { size: 1 }] }),
            string_val: vec![text.as_bytes().to_vec()],
        };
        let plugin = PluginData { plugin_name: "text".to_owned() };
        Self {
            tag: tag.to_owned(),
            tensor: Some(tensor),
            metadata: Some(Metadata { plugin_data: Some(plugin) }),
            ..Self::default()
        }
    }
}
