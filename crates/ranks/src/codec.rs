//! Messages as bytes: what kind, which order they belong to, and for most a head whose length comes before it, and a body.

use crate::message::Order;
use formant_methods::{MethodError, Value};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A message as it was received.
pub(crate) struct Letter {
    bytes: Vec<u8>,
    head: usize,
}

/// Where the length of the head stands: after the kind and the number of the order.
const LENGTH: usize = 1 + 8;

/// Where the head begins.
const START: usize = LENGTH + 8;

/// Most messages are for whoever waits for them.
const SAID: u8 = 0;
/// These are for the thread that serves the fabric, before their turn.
const CALLED_OFF: u8 = 1;
const PASS: u8 = 2;
/// The message of a rank that lives.
pub(crate) const ALIVE: &[u8] = &[3, 0, 0, 0, 0, 0, 0, 0, 0];

/// What every version of the program understands, from the first word on: who a rank is, and that it may go. Its form
/// never changes; all else may, and is said only to ranks of the same version.
const PLAIN: &[u8] = b"formant ranks\n";
const QUIT: &str = "quit";

/// What a message is, seen from outside.
pub(crate) enum Kind {
    /// For whoever waits for it.
    Said(Letter),
    /// An order is called off.
    CalledOff(u64),
    /// The next report of an order may come.
    Pass(u64),
    /// A rank lives, and has nothing else to say.
    Alive,
}

/// Who a rank is, as every version says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Introduction {
    pub(crate) version: String,
    /// A hash of its binary.
    pub(crate) binary: u64,
    pub(crate) host: String,
}

/// A message without a body.
pub(crate) fn letter(order: u64, head: &impl Serialize) -> Result<Vec<u8>, String> {
    let head = postcard::to_stdvec(head).map_err(|error| error.to_string())?;
    let mut bytes = signal(SAID, order);
    bytes.reserve_exact(8 + head.len());
    bytes.extend((head.len() as u64).to_le_bytes());
    bytes.extend(head);
    Ok(bytes)
}

/// Appends a value as a message's body.
pub(crate) fn append(letter: &mut Vec<u8>, value: &Value) -> Result<(), MethodError> {
    letter.reserve_exact(value.encoded_len()?);
    value.encode_to(letter)
}

/// The message that calls an order off.
pub(crate) fn calling_off(order: u64) -> Vec<u8> {
    signal(CALLED_OFF, order)
}

/// The message that lets the next report of an order come.
pub(crate) fn pass(order: u64) -> Vec<u8> {
    signal(PASS, order)
}

/// The message by which a rank introduces itself.
pub(crate) fn introducing(introduction: &Introduction) -> Vec<u8> {
    let Introduction { version, binary, host } = introduction;
    plain(&format!("{version}\n{binary:016x}\n{host}"))
}

/// The message that sends a rank home.
pub(crate) fn quitting() -> Vec<u8> {
    plain(QUIT)
}

fn plain(text: &str) -> Vec<u8> {
    [PLAIN, text.as_bytes()].concat()
}

/// What is said plainly, as a message of this version.
fn translated(text: &[u8]) -> Result<Letter, String> {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.lines().collect();
    let letter = match lines.as_slice() {
        [QUIT] => letter(0, &Order::Quit),
        // There may be more in versions to come.
        [version, binary, host, ..] => {
            let (version, host) = ((*version).into(), (*host).into());
            let binary = u64::from_str_radix(binary, 16).unwrap_or_default();
            letter(0, &Introduction { version, binary, host })
        }
        _ => Err(format!("{text:?} is no message")),
    };
    letter.and_then(Letter::new)
}

fn signal(kind: u8, order: u64) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(order.to_le_bytes());
    bytes
}

impl Kind {
    /// A message in these bytes.
    pub(crate) fn of(bytes: Vec<u8>) -> Result<Self, String> {
        if let Some(text) = bytes.strip_prefix(PLAIN) {
            return translated(text).map(Self::Said);
        }
        if bytes == ALIVE {
            return Ok(Self::Alive);
        }
        let order = bytes.get(1..LENGTH).and_then(|order| order.try_into().ok());
        let order = order.map(u64::from_le_bytes);
        match (bytes.first(), order) {
            (Some(&SAID), Some(_)) => Letter::new(bytes).map(Self::Said),
            (Some(&CALLED_OFF), Some(order)) if bytes.len() == LENGTH => Ok(Self::CalledOff(order)),
            (Some(&PASS), Some(order)) if bytes.len() == LENGTH => Ok(Self::Pass(order)),
            _ => Err(format!("{} bytes are no message", bytes.len())),
        }
    }
}

impl Letter {
    fn new(bytes: Vec<u8>) -> Result<Self, String> {
        let length = bytes.get(LENGTH..START).and_then(|length| length.try_into().ok());
        let head = length.map(u64::from_le_bytes).filter(|head| {
            // Never an overflow: there are START bytes.
            *head <= (bytes.len() - START) as u64
        });
        let Some(head) = head else { return Err(format!("{} bytes are no message", bytes.len())) };
        Ok(Self { bytes, head: head as usize })
    }

    /// The order that it belongs to.
    pub(crate) fn order(&self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|i| self.bytes[1 + i]))
    }

    /// What it says.
    pub(crate) fn head<T: DeserializeOwned>(&self) -> Result<T, String> {
        let head = &self.bytes[START..START + self.head];
        match postcard::take_from_bytes(head) {
            Ok((said, [])) => Ok(said),
            Ok((_, rest)) => Err(format!("a message has {} bytes too many", rest.len())),
            Err(error) => Err(format!("a message cannot be read: {error}")),
        }
    }

    /// What follows.
    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[START + self.head..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(bytes: Vec<u8>) -> Letter {
        match Kind::of(bytes) {
            Ok(Kind::Said(letter)) => letter,
            _ => panic!("it is said"),
        }
    }

    #[test]
    fn a_message_survives() {
        let mut bytes = letter(7, &("head", 3.5)).unwrap();
        bytes.extend(b"body");
        let letter = said(bytes);
        assert_eq!((letter.order(), letter.body()), (7, b"body".as_slice()));
        assert_eq!(letter.head::<(String, f64)>().unwrap(), ("head".into(), 3.5));
        assert!(letter.head::<Vec<u64>>().is_err());
    }

    #[test]
    fn signals_carry_the_number_of_an_order() {
        assert!(matches!(Kind::of(calling_off(258)), Ok(Kind::CalledOff(258))));
        assert!(matches!(Kind::of(pass(259)), Ok(Kind::Pass(259))));
        assert!(matches!(Kind::of(ALIVE.to_vec()), Ok(Kind::Alive)));
    }

    #[test]
    fn what_every_version_understands_stays_as_it_is() {
        let mine = Introduction { version: "1.2.3".into(), binary: 255, host: "a".into() };
        let bytes = introducing(&mine);
        assert_eq!(bytes, b"formant ranks\n1.2.3\n00000000000000ff\na");
        assert_eq!(said(bytes).head::<Introduction>().unwrap(), mine);
        let later = b"formant ranks\n9.0\n1\nb\nand more".to_vec();
        assert_eq!(said(later).head::<Introduction>().unwrap().version, "9.0");
        assert_eq!(quitting(), b"formant ranks\nquit");
        assert!(matches!(said(quitting()).head(), Ok(Order::Quit)));
        assert!(Kind::of(b"formant ranks\nwhat".to_vec()).is_err());
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let whole = letter(1, &[5_u64; 4]).unwrap();
        for end in 0..whole.len() {
            assert!(Kind::of(whole[..end].to_vec()).is_err(), "{end}");
        }
        assert!(Kind::of(pass(1)[..8].to_vec()).is_err());
        assert!(Kind::of(vec![255; 40]).is_err());
        let mut claims = whole;
        claims[LENGTH..START].fill(255);
        assert!(Kind::of(claims).is_err());
    }
}
