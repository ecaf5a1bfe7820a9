//! The machine that a pickle is a program for.

use super::{Fault, Id, MOST_NAME, Node, Pickle, text};
use std::borrow::Cow;
use std::collections::HashMap;

/// The longest program. CIFAR-100 needs a quarter of a million steps; what a step can add is bounded, so
/// this bounds memory.
const MOST_STEPS: usize = 2_000_000;
/// The highest protocol.
const PROTOCOL: u8 = 5;

struct Machine<'b> {
    bytes: &'b [u8],
    at: usize,
    /// Where the step that is being done begins.
    step: usize,
    nodes: Vec<(Node<'b>, usize)>,
    stack: Vec<Id>,
    /// How high the stack was when each mark was set.
    marks: Vec<usize>,
    memo: HashMap<u64, Id>,
}

/// Does what a pickle says, up to its end.
pub(crate) fn run(bytes: &[u8]) -> Result<Pickle<'_>, Fault> {
    let mut machine = Machine {
        bytes,
        at: 0,
        step: 0,
        nodes: Vec::new(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
    };
    for _ in 0..MOST_STEPS {
        machine.step = machine.at;
        let [opcode] = machine.array()?;
        if opcode == b'.' {
            let root = machine.pop()?;
            if machine.at != bytes.len() {
                let more = bytes.len() - machine.at;
                return Err(Fault::new(machine.at, format!("{more} bytes after its end")));
            }
            return Ok(Pickle { nodes: machine.nodes, root });
        }
        machine.obey(opcode)?;
    }
    Err(machine.fault(format!("more than {MOST_STEPS} steps")))
}

impl<'b> Machine<'b> {
    fn fault(&self, found: impl Into<String>) -> Fault {
        Fault::new(self.step, found)
    }

    /// The next bytes.
    fn take(&mut self, count: usize) -> Result<&'b [u8], Fault> {
        let left = &self.bytes[self.at..];
        let Some(taken) = left.get(..count) else {
            let found =
                format!("{count} bytes are announced where {} are left (truncated?)", left.len());
            return Err(self.fault(found));
        };
        self.at += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// A length of so many bytes, then as many bytes as it says.
    fn counted(&mut self, wide: usize) -> Result<&'b [u8], Fault> {
        let mut word = [0; 8];
        word[..wide].copy_from_slice(self.take(wide)?);
        let count = u64::from_le_bytes(word);
        self.take(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// The rest of a line.
    fn line(&mut self) -> Result<&'b [u8], Fault> {
        let left = &self.bytes[self.at..];
        let Some(length) = left.iter().position(|byte| *byte == b'\n') else {
            return Err(self.fault("a line without an end (truncated?)"));
        };
        self.at += length + 1;
        Ok(&left[..length])
    }

    fn line_text(&mut self) -> Result<&'b str, Fault> {
        let line = self.line()?;
        std::str::from_utf8(line).map_err(|_| self.fault("a line that is not text"))
    }

    fn push(&mut self, node: Node<'b>) {
        // There are fewer nodes than steps.
        self.stack.push(Id(self.nodes.len() as u32));
        self.nodes.push((node, self.step));
    }

    /// The top of the stack. What lies below a mark is out of reach.
    fn pop(&mut self) -> Result<Id, Fault> {
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= floor {
            return Err(self.fault("a value is taken from an empty stack"));
        }
        self.stack.pop().ok_or_else(|| Fault::new(self.step, "an empty stack"))
    }

    fn top(&self) -> Result<Id, Fault> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let top = self.stack.last().filter(|_| self.stack.len() > floor);
        top.copied().ok_or_else(|| self.fault("a value is taken from an empty stack"))
    }

    /// Everything above the last mark.
    fn since_mark(&mut self) -> Result<Vec<Id>, Fault> {
        let Some(mark) = self.marks.pop() else {
            return Err(self.fault("a mark is used that was never set"));
        };
        Ok(self.stack.split_off(mark))
    }

    fn obey(&mut self, opcode: u8) -> Result<(), Fault> {
        match opcode {
            b'(' => self.marks.push(self.stack.len()),
            b'0' if self.marks.last() == Some(&self.stack.len()) => {
                self.marks.pop();
            }
            b'0' => {
                self.pop()?;
            }
            b'1' => {
                self.since_mark()?;
            }
            b'2' => self.stack.push(self.top()?),
            b'N' => self.push(Node::Nothing),
            0x88 => self.push(Node::Truth(true)),
            0x89 => self.push(Node::Truth(false)),
            0x80 => {
                let [protocol] = self.array()?;
                if protocol > PROTOCOL {
                    return Err(self.fault(format!("the unknown protocol {protocol}")));
                }
            }
            // A frame says how much follows, which may be read at once.
            0x95 => {
                self.take(8)?;
            }
            b'I' | b'L' | b'F' | b'J' | b'K' | b'M' | b'G' | 0x8a | 0x8b => {
                let number = self.number(opcode)?;
                self.push(number);
            }
            b'S' | b'T' | b'U' | b'V' | b'X' | b'B' | b'C' | 0x8c | 0x8d | 0x8e | 0x96 => {
                let string = self.string(opcode)?;
                self.push(string);
            }
            b'a' | b'e' | b's' | b'u' | b'l' | b'd' | b't' | b']' | b'}' | b')' | 0x85..=0x87 => {
                self.collect(opcode)?;
            }
            b'p' | b'q' | b'r' | 0x94 | b'g' | b'h' | b'j' => self.remember(opcode)?,
            b'c' => {
                let (module, name) = (self.line_text()?.to_owned(), self.line_text()?.to_owned());
                self.push(Node::Name(module, name));
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                match (self.text(module), self.text(name)) {
                    (Some(module), Some(name)) => self.push(Node::Name(module, name)),
                    _ => return Err(self.fault("the name of a Python object is no text")),
                }
            }
            b'R' | 0x81 => {
                let (arguments, callee) = (self.pop()?, self.pop()?);
                self.push(Node::Call { callee, arguments, state: None });
            }
            b'b' => {
                let (given, object) = (self.pop()?, self.top()?);
                match &mut self.nodes[object.0 as usize].0 {
                    Node::Call { state, .. } => *state = Some(given),
                    _ => return Err(self.fault("a state is given to a plain value")),
                }
            }
            other => {
                return Err(self
                    .fault(format!("the instruction {other:#04x}, which plain data do not need")));
            }
        }
        Ok(())
    }

    /// A text that can be a name.
    fn text(&self, id: Id) -> Option<String> {
        let bytes = match &self.nodes[id.0 as usize].0 {
            Node::Text(text) => text.as_bytes(),
            Node::Bytes(bytes) => bytes,
            _ => return None,
        };
        // One long text may be used many times.
        let name = Some(bytes).filter(|bytes| bytes.len() <= MOST_NAME)?;
        std::str::from_utf8(name).ok().map(ToOwned::to_owned)
    }

    fn number(&mut self, opcode: u8) -> Result<Node<'b>, Fault> {
        let little = |bytes: &[u8]| {
            let mut word = match bytes.last() {
                Some(last) if last & 0x80 != 0 => [0xff; 8],
                _ => [0; 8],
            };
            if bytes.len() > word.len() {
                return Node::Number;
            }
            word[..bytes.len()].copy_from_slice(bytes);
            Node::Whole(i64::from_le_bytes(word))
        };
        Ok(match opcode {
            b'I' | b'L' => match self.line_text()? {
                "00" => Node::Truth(false),
                "01" => Node::Truth(true),
                digits => {
                    let digits = digits.strip_suffix('L').unwrap_or(digits);
                    match digits.parse() {
                        Ok(value) => Node::Whole(value),
                        Err(_) => Node::Number,
                    }
                }
            },
            b'F' => {
                self.line()?;
                Node::Number
            }
            b'G' => {
                self.take(8)?;
                Node::Number
            }
            b'J' => Node::Whole(i64::from(i32::from_le_bytes(self.array()?))),
            b'K' => {
                let [byte] = self.array()?;
                Node::Whole(i64::from(byte))
            }
            b'M' => Node::Whole(i64::from(u16::from_le_bytes(self.array()?))),
            0x8a => little(self.counted(1)?),
            _ => little(self.counted(4)?),
        })
    }

    fn string(&mut self, opcode: u8) -> Result<Node<'b>, Fault> {
        let bytes = |bytes| Node::Bytes(Cow::Borrowed(bytes));
        let wide = match opcode {
            b'S' => {
                let line = self.line()?;
                let plain = text::unescaped(line);
                return match plain {
                    Some(plain) => Ok(Node::Bytes(Cow::Owned(plain))),
                    None => Err(self.fault("a text that is not quoted as Python does")),
                };
            }
            b'V' => {
                let line = self.line()?;
                return Ok(Node::Text(Cow::Owned(text::raw_unicode(line))));
            }
            b'U' | b'C' | 0x8c => 1,
            b'T' | b'X' | b'B' => 4,
            _ => 8,
        };
        let content = self.counted(wide)?;
        Ok(match opcode {
            b'X' | 0x8c | 0x8d => match std::str::from_utf8(content) {
                Ok(content) => Node::Text(Cow::Borrowed(content)),
                Err(_) => return Err(self.fault("a text that is not UTF-8")),
            },
            _ => bytes(content),
        })
    }

    fn collect(&mut self, opcode: u8) -> Result<(), Fault> {
        match opcode {
            b']' => self.push(Node::List(Vec::new())),
            b'}' => self.push(Node::Dictionary(Vec::new())),
            b')' => self.push(Node::Tuple(Vec::new())),
            b'l' => {
                let items = self.since_mark()?;
                self.push(Node::List(items));
            }
            b't' => {
                let items = self.since_mark()?;
                self.push(Node::Tuple(items));
            }
            b'd' => {
                let entries = self.pairs()?;
                self.push(Node::Dictionary(entries));
            }
            0x85..=0x87 => {
                let mut items = Vec::new();
                for _ in 0x85..=opcode {
                    items.push(self.pop()?);
                }
                items.reverse();
                self.push(Node::Tuple(items));
            }
            b'a' | b'e' => {
                let items = if opcode == b'a' { vec![self.pop()?] } else { self.since_mark()? };
                let list = self.top()?;
                match &mut self.nodes[list.0 as usize].0 {
                    Node::List(list) => list.extend(items),
                    _ => return Err(self.fault("something is appended to what is no list")),
                }
            }
            _ => {
                let entries = if opcode == b's' {
                    let (value, key) = (self.pop()?, self.pop()?);
                    vec![(key, value)]
                } else {
                    self.pairs()?
                };
                let dictionary = self.top()?;
                match &mut self.nodes[dictionary.0 as usize].0 {
                    Node::Dictionary(dictionary) => dictionary.extend(entries),
                    _ => return Err(self.fault("an entry is added to what is no dictionary")),
                }
            }
        }
        Ok(())
    }

    fn pairs(&mut self) -> Result<Vec<(Id, Id)>, Fault> {
        let items = self.since_mark()?;
        let (pairs, []) = items.as_chunks::<2>() else {
            return Err(self.fault("a key without a value"));
        };
        Ok(pairs.iter().map(|[key, value]| (*key, *value)).collect())
    }

    fn remember(&mut self, opcode: u8) -> Result<(), Fault> {
        let place = match opcode {
            0x94 => self.memo.len() as u64,
            b'q' | b'h' => {
                let [place] = self.array()?;
                u64::from(place)
            }
            b'r' | b'j' => u64::from(u32::from_le_bytes(self.array()?)),
            _ => match self.line_text()?.parse() {
                Ok(place) => place,
                Err(_) => return Err(self.fault("a place in the memo that is no number")),
            },
        };
        if matches!(opcode, b'g' | b'h' | b'j') {
            let Some(value) = self.memo.get(&place) else {
                return Err(self.fault(format!("the memo has nothing at {place}")));
            };
            self.stack.push(*value);
        } else {
            let value = self.top()?;
            self.memo.insert(place, value);
        }
        Ok(())
    }
}
