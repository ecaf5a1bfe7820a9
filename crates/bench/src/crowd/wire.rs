//! The protocol as anybody can have it, and the checks that both sides make.

use bytes::Bytes;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// The generated messages and the client's calls.
#[expect(
    unreachable_pub,
    clippy::pedantic,
    reason = "generated from proto/formant.proto, which is the documentation"
)]
pub(crate) mod proto {
    include!("../../../network/proto/formant.v1.rs");
}

pub(crate) fn chunk(offset: u64, data: Bytes) -> proto::Chunk {
    proto::Chunk { offset, checksum: xxh3_64(&data), data }
}

pub(crate) fn is_whole(chunk: &proto::Chunk) -> bool {
    xxh3_64(&chunk.data) == chunk.checksum
}

pub(crate) fn file_of(bytes: &[u8]) -> proto::File {
    proto::File { bytes: bytes.len() as u64, hash: xxh3_128(bytes).to_le_bytes().to_vec() }
}
