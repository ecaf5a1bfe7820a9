//! Python's pickles, read as plain values.
//!
//! A pickle is a program for a machine with a stack, and Python runs whatever function it names. Here
//! nothing is run: what a pickle would call is kept as a name with arguments, and the one thing that is
//! needed of it, an array of NumPy, is recognised by its name ([`Pickle::array`]).

mod machine;
mod numpy;
mod text;

use std::borrow::Cow;

/// The longest name, in bytes: a pickle can use one text many times, and each name is a copy.
const MOST_NAME: usize = 256;

/// A value of a pickle, as its place among all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Id(u32);

/// What a pickle holds.
#[derive(Debug)]
pub(crate) struct Pickle<'b> {
    /// Each value, and the byte at which it begins. Values name each other by their places, so that a value
    /// that holds itself is nothing special.
    nodes: Vec<(Node<'b>, usize)>,
    /// The value that the pickle is of.
    pub(crate) root: Id,
}

/// One value.
#[derive(Debug)]
enum Node<'b> {
    Nothing,
    Truth(bool),
    Whole(i64),
    /// A number that no class or extent can be: too large, or a fraction.
    Number,
    Bytes(Cow<'b, [u8]>),
    Text(Cow<'b, str>),
    List(Vec<Id>),
    Tuple(Vec<Id>),
    Dictionary(Vec<(Id, Id)>),
    /// Something that Python would import.
    Name(String, String),
    /// Something that Python would call, and what it would then give the result.
    Call {
        callee: Id,
        arguments: Id,
        state: Option<Id>,
    },
}

/// Where a pickle cannot be read, and why.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) byte: usize,
    pub(crate) found: String,
}

impl Fault {
    fn new(byte: usize, found: impl Into<String>) -> Self {
        Self { byte, found: found.into() }
    }
}

impl<'b> Pickle<'b> {
    /// Reads a pickle of protocol 0 to 5.
    pub(crate) fn parse(bytes: &'b [u8]) -> Result<Self, Fault> {
        machine::run(bytes)
    }

    fn node(&self, id: Id) -> &Node<'b> {
        &self.nodes[id.0 as usize].0
    }

    /// The error that a value is not what it should be.
    pub(crate) fn fault(&self, id: Id, what: &str, wanted: &str) -> Fault {
        let byte = self.nodes[id.0 as usize].1;
        Fault::new(byte, format!("{what}: {} instead of {wanted}", self.shown(id)))
    }

    /// What kind of value it is, for a message.
    fn shown(&self, id: Id) -> String {
        match self.node(id) {
            Node::Nothing => "None".into(),
            Node::Truth(value) => format!("the truth value {value}"),
            Node::Whole(value) => format!("the number {value}"),
            Node::Number => "a fraction or a very large number".into(),
            Node::Bytes(bytes) => format!("{} bytes", bytes.len()),
            Node::Text(text) => format!("a text of {} bytes", text.len()),
            Node::List(items) => format!("a list of {}", items.len()),
            Node::Tuple(items) => format!("a tuple of {}", items.len()),
            Node::Dictionary(entries) => format!("a dictionary of {}", entries.len()),
            Node::Name(module, name) => format!("the Python object {module}.{name}"),
            Node::Call { callee, .. } => match self.node(*callee) {
                Node::Name(module, name) => format!("a Python object made by {module}.{name}"),
                _ => "a Python object".into(),
            },
        }
    }

    /// The value of a key in the dictionary that the pickle is of. Keys of Python 2 are bytes.
    pub(crate) fn entry(&self, key: &str) -> Result<Option<Id>, Fault> {
        let Node::Dictionary(entries) = self.node(self.root) else {
            return Err(self.fault(self.root, "the pickle", "a dictionary"));
        };
        // The last one of equal keys counts, as in Python.
        let is_it = |name: Id| self.name(name).is_some_and(|name| *name == *key.as_bytes());
        let found = entries.iter().rev().find(|(name, _)| is_it(*name));
        Ok(found.map(|(_, value)| *value))
    }

    /// The keys of the dictionary that the pickle is of, for a message.
    pub(crate) fn keys(&self) -> String {
        let Node::Dictionary(entries) = self.node(self.root) else { return String::new() };
        let names = entries.iter().take(16).map(|(name, _)| match self.name(*name) {
            Some(name) => String::from_utf8_lossy(&name).into_owned(),
            None => self.shown(*name),
        });
        names.collect::<Vec<_>>().join(", ")
    }

    /// A short text, as bytes.
    fn name(&self, id: Id) -> Option<Cow<'_, [u8]>> {
        let is_short = match self.node(id) {
            Node::Bytes(bytes) => bytes.len() <= MOST_NAME,
            Node::Text(text) => {
                return Some(text.as_bytes().into()).filter(|_| text.len() <= MOST_NAME);
            }
            // Python 3 writes bytes so in the protocols of Python 2.
            Node::Call { arguments, .. } => match self.items(*arguments)?.first() {
                Some(content) => match self.node(*content) {
                    Node::Text(text) => text.len() <= MOST_NAME,
                    _ => false,
                },
                None => true,
            },
            _ => false,
        };
        is_short.then(|| self.bytes(id)).flatten()
    }

    fn items(&self, id: Id) -> Option<&[Id]> {
        match self.node(id) {
            Node::List(items) | Node::Tuple(items) => Some(items),
            _ => None,
        }
    }

    fn whole(&self, id: Id) -> Option<i64> {
        match self.node(id) {
            Node::Whole(value) => Some(*value),
            _ => None,
        }
    }

    /// A list of texts.
    pub(crate) fn texts(&self, id: Id, what: &str) -> Result<Vec<String>, Fault> {
        let items = self.items(id).ok_or_else(|| self.fault(id, what, "a list of names"))?;
        let text = |item: &Id| {
            let name = self.name(*item).filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| self.fault(*item, what, "a name"))?;
            Ok(String::from_utf8_lossy(&name).into_owned())
        };
        items.iter().map(text).collect()
    }

    /// A list of whole numbers, or an array of them.
    pub(crate) fn wholes(&self, id: Id, what: &str) -> Result<Vec<i64>, Fault> {
        if let Some(items) = self.items(id) {
            let whole = |item: &Id| {
                let value = self.whole(*item);
                value.ok_or_else(|| self.fault(*item, what, "a whole number"))
            };
            return items.iter().map(whole).collect();
        }
        let numbers = self.array(id, what)?.wholes();
        numbers.ok_or_else(|| self.fault(id, what, "a list or an array of whole numbers"))
    }
}
