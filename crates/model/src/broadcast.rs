//! What clients would get after a method's last round, as a file beside its models: for newcomers, where it is more or
//! something else than the generic model.
//!
//! The file is a line that says what it is, sixteen bytes of XXH3-128 over what follows, and the message as its method
//! encodes it.

use crate::ModelError;
use std::io::ErrorKind;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_128;

/// The first line.
const MARK: &[u8] = b"formant broadcast 1\n";
/// Bytes of the check behind it.
const CHECK: usize = 16;

/// Bytes of a file besides its message.
pub const BROADCAST_BESIDES: usize = MARK.len() + CHECK;

/// An encoded broadcast as a file.
pub fn seal_broadcast(message: &[u8]) -> Vec<u8> {
    [MARK, &xxh3_128(message).to_le_bytes(), message].concat()
}

/// The encoded broadcast in a file; none if the file is not there.
pub fn read_broadcast(path: &Path) -> Result<Option<Vec<u8>>, ModelError> {
    let mut bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ModelError::file("read", path, error)),
    };
    let refuse = |found: &str| ModelError::Malformed {
        origin: path.display().to_string(),
        found: found.into(),
        remedy:
            "take another copy of the run folder, or remove the file: newcomers then only fine-tune"
                .into(),
    };
    if !bytes.starts_with(MARK) || bytes.len() < BROADCAST_BESIDES {
        return Err(refuse("it does not begin as a broadcast does"));
    }
    let message = bytes.split_off(BROADCAST_BESIDES);
    if xxh3_128(&message).to_le_bytes() != bytes[MARK.len()..] {
        return Err(refuse("its checksum does not match"));
    }
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broadcast_comes_back_or_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("broadcast.bin");
        assert_eq!(read_broadcast(&path).unwrap(), None);
        for message in [&b"any bytes"[..], b""] {
            let sealed = seal_broadcast(message);
            assert_eq!(sealed.len(), message.len() + BROADCAST_BESIDES);
            std::fs::write(&path, &sealed).unwrap();
            assert_eq!(read_broadcast(&path).unwrap().as_deref(), Some(message));
            for (damaged, expected) in [
                (sealed[..sealed.len() - 1].to_vec(), ""),
                ([&sealed[..], b"x"].concat(), "its checksum does not match"),
                ([b"F", &sealed[1..]].concat(), "it does not begin as a broadcast does"),
            ] {
                std::fs::write(&path, damaged).unwrap();
                let error = read_broadcast(&path).unwrap_err().to_string();
                assert!(error.contains(expected) && error.contains("\nhint: "), "{error}");
            }
        }
    }
}
