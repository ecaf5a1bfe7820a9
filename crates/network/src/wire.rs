//! Words of the wire: the generated messages, checksums, hashes.

use crate::error::NetworkError;
use bytes::Bytes;
use formant_federation::Role;
use formant_runtime::files::{self, Named};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// The generated messages and services.
#[expect(
    unreachable_pub,
    clippy::pedantic,
    reason = "generated from proto/formant.proto, which is the documentation"
)]
pub(crate) mod proto {
    // Committed, so that no build has to compile a code generator; `tests/generated.rs` renews it.
    include!("../proto/formant.v1.rs");
}

/// The version of the protocol. Both sides must speak the same.
pub const VERSION: u32 = 1;
/// The metadata key that names a client where there is no certificate.
pub(crate) const NAME_KEY: &str = "formant-name";

/// Length and hash of a file that is sent.
pub(crate) fn file_of(bytes: &[u8]) -> proto::File {
    proto::File {
        bytes: bytes.len() as u64,
        hash: Bytes::copy_from_slice(&xxh3_128(bytes).to_le_bytes()).into(),
    }
}

/// The same of a file that a manifest names.
pub(crate) fn file_named(named: &Named) -> proto::File {
    let hash = u128::from_str_radix(&named.hash, 16).unwrap_or_default();
    proto::File { bytes: named.bytes, hash: hash.to_le_bytes().to_vec() }
}

/// Whether these bytes are the file that was announced.
pub(crate) fn is_file(file: &proto::File, bytes: &[u8]) -> bool {
    *file == file_of(bytes)
}

/// A chunk with its checksum.
pub(crate) fn chunk(offset: u64, data: Bytes) -> proto::Chunk {
    let checksum = xxh3_64(&data);
    proto::Chunk { offset, data, checksum }
}

/// Whether a chunk has come as it was sent.
pub(crate) fn is_whole(chunk: &proto::Chunk) -> bool {
    xxh3_64(&chunk.data) == chunk.checksum
}

pub(crate) fn role_to_wire(role: Role) -> proto::Role {
    match role {
        Role::Participant => proto::Role::Participant,
        Role::Bystander => proto::Role::Bystander,
    }
}

pub(crate) fn role_from_wire(role: proto::Role) -> Role {
    match role {
        proto::Role::Participant => Role::Participant,
        proto::Role::Bystander => Role::Bystander,
    }
}

/// A hash as it is printed.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// XXH3-128 of an encoded state: equal for equal bits.
pub fn fingerprint(bytes: &[u8]) -> String {
    files::fingerprint(bytes)
}

/// SHA-256 as hexadecimal digits, where somebody may want a second content of the same hash.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref())
}

/// What another program has sent does not make sense.
pub(crate) fn confused(what: impl Into<String>) -> NetworkError {
    NetworkError::Confused { what: what.into() }
}
