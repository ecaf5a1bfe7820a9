//! How messages of a method become bytes on the wire: plain or compressed, parameters as 32-bit or
//! 16-bit floats.

use crate::wire::proto::{Encoding, Precision};
use formant_methods::{ErasedMethod, MethodError, Value};
use half::f16;
use std::io::Read;

/// How messages are packed: the server's choice, which clients are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packing {
    pub(crate) encoding: Encoding,
    /// Of uploads.
    pub(crate) precision: Precision,
}

/// zstd's own default: faster than a network of a gigabit a second.
const LEVEL: i32 = 3;

/// Why bytes are no message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unpacking {
    #[error("it is not a zstd stream: {0}")]
    Compression(std::io::Error),
    #[error("it unpacks to more than {0} bytes")]
    TooLarge(u64),
    #[error("it is cut off")]
    Short,
    #[error("bytes left over: {0}")]
    Rest(usize),
    #[error("{0}")]
    Method(#[from] MethodError),
}

/// Compresses, if that is the choice.
pub(crate) fn compress(bytes: Vec<u8>, encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::None => bytes,
        // Writing into memory cannot fail; if it did, the bytes would be refused on the other side.
        Encoding::Zstd => zstd::encode_all(bytes.as_slice(), LEVEL).unwrap_or_default(),
    }
}

/// Takes compression off, into at most so many bytes.
pub(crate) fn expand(bytes: Vec<u8>, encoding: Encoding, limit: u64) -> Result<Vec<u8>, Unpacking> {
    let bytes = match encoding {
        Encoding::None => bytes,
        Encoding::Zstd => {
            let mut expanded = Vec::new();
            zstd::Decoder::new(bytes.as_slice())
                .and_then(|decoder| {
                    decoder.take(limit.saturating_add(1)).read_to_end(&mut expanded)
                })
                .map_err(Unpacking::Compression)?;
            expanded
        }
    };
    if bytes.len() as u64 > limit {
        return Err(Unpacking::TooLarge(limit));
    }
    Ok(bytes)
}

impl Packing {
    /// Packs an upload. With 16-bit floats, the parameters in the value itself are rounded too: what
    /// the client goes on with is what it has sent.
    pub(crate) fn pack(
        self,
        method: &dyn ErasedMethod,
        upload: &mut Value,
    ) -> Result<Vec<u8>, MethodError> {
        let bytes = match self.precision {
            Precision::F32 => upload.encode()?,
            Precision::F16 => pack_halves(method, upload)?,
        };
        Ok(compress(bytes, self.encoding))
    }

    /// Unpacks an upload that may hold at most so many bytes.
    pub(crate) fn unpack(
        self,
        method: &dyn ErasedMethod,
        bytes: Vec<u8>,
        limit: u64,
    ) -> Result<Value, Unpacking> {
        let bytes = expand(bytes, self.encoding, limit)?;
        match self.precision {
            Precision::F32 => Ok(method.decode_upload(&bytes)?),
            Precision::F16 => unpack_halves(method, &bytes),
        }
    }
}

/// The rest of the message with its length in front; then every vector as 16-bit floats, with the
/// number of its values in front.
fn pack_halves(method: &dyn ErasedMethod, upload: &mut Value) -> Result<Vec<u8>, MethodError> {
    // Beyond the range of 16 bits, the largest number is nearer than infinity.
    let round = |x: f32| f16::from_f32(x.clamp(-LARGEST, LARGEST));
    let mut vectors = Vec::new();
    for vector in method.upload_vectors_mut(upload)? {
        vectors.push(vector.drain(..).map(round).collect::<Vec<f16>>());
    }
    let rest = upload.encode()?;
    let mut bytes = (rest.len() as u64).to_le_bytes().to_vec();
    bytes.extend(rest);
    for (vector, halves) in method.upload_vectors_mut(upload)?.into_iter().zip(&vectors) {
        bytes.extend((halves.len() as u64).to_le_bytes());
        bytes.extend(halves.iter().flat_map(|x| x.to_le_bytes()));
        vector.extend(halves.iter().map(|x| x.to_f32()));
    }
    Ok(bytes)
}

/// The largest number of 16 bits.
const LARGEST: f32 = 65_504.0;

fn unpack_halves(method: &dyn ErasedMethod, mut bytes: &[u8]) -> Result<Value, Unpacking> {
    let length = take_length(&mut bytes)?;
    let (rest, mut bytes) = bytes.split_at_checked(length).ok_or(Unpacking::Short)?;
    let mut upload = method.decode_upload(rest)?;
    for vector in method.upload_vectors_mut(&mut upload)? {
        let length = take_length(&mut bytes)?.checked_mul(2).ok_or(Unpacking::Short)?;
        let (halves, after) = bytes.split_at_checked(length).ok_or(Unpacking::Short)?;
        let (halves, _) = halves.as_chunks::<2>();
        vector.clear();
        vector.extend(halves.iter().map(|x| f16::from_le_bytes(*x).to_f32()));
        bytes = after;
    }
    if bytes.is_empty() { Ok(upload) } else { Err(Unpacking::Rest(bytes.len())) }
}

fn take_length(bytes: &mut &[u8]) -> Result<usize, Unpacking> {
    let (length, rest) = bytes.split_first_chunk::<8>().ok_or(Unpacking::Short)?;
    *bytes = rest;
    usize::try_from(u64::from_le_bytes(*length)).map_err(|_| Unpacking::Short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use formant_numerics::Model;
    use std::sync::Arc;

    fn upload(parameters: Vec<f32>) -> (Arc<dyn ErasedMethod>, Value) {
        let zoo = formant_methods::Zoo::standard();
        let method = zoo.build("fedavg", &toml::Table::new()).unwrap().method;
        let server = method.start_server(&Model { parameters, buffers: vec![0.5] });
        let upload = method.broadcast(&server).unwrap();
        (method, upload)
    }

    #[test]
    fn every_packing_gives_back_what_was_sent() {
        for encoding in [Encoding::None, Encoding::Zstd] {
            for precision in [Precision::F32, Precision::F16] {
                let packing = Packing { encoding, precision };
                let (method, mut value) = upload(vec![0.1, -3.0, 1e9]);
                let bytes = packing.pack(&*method, &mut value).unwrap();
                let read = packing.unpack(&*method, bytes.clone(), 10_000).unwrap();
                assert_eq!(read.encode().unwrap(), value.encode().unwrap());
                let vectors = method.upload_vectors(&read).unwrap();
                assert_eq!(vectors[0][1], -3.0);
                assert_eq!(vectors[0][2] == 65_504.0, precision == Precision::F16);
                assert!(
                    packing.unpack(&*method, bytes[..bytes.len() - 1].to_vec(), 10_000).is_err()
                );
                assert!(packing.unpack(&*method, bytes, 5).is_err());
            }
        }
    }

    #[test]
    fn halves_are_half_and_zeros_compress() {
        let size = |encoding, precision| {
            let (method, mut value) = upload(vec![0.0; 10_000]);
            Packing { encoding, precision }.pack(&*method, &mut value).unwrap().len()
        };
        let plain = size(Encoding::None, Precision::F32);
        assert!(size(Encoding::None, Precision::F16) < plain * 51 / 100);
        assert!(size(Encoding::Zstd, Precision::F32) < plain / 100);
    }

    #[test]
    fn a_small_stream_that_unpacks_to_much_is_refused() {
        let bomb = zstd::encode_all(&vec![0u8; 1 << 20][..], LEVEL).unwrap();
        let error = expand(bomb, Encoding::Zstd, 1_000).unwrap_err();
        assert!(matches!(error, Unpacking::TooLarge(1_000)));
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let (method, _) = upload(vec![1.0]);
        let packing = Packing { encoding: Encoding::None, precision: Precision::F16 };
        for bytes in [vec![], vec![255; 8], vec![255; 40], vec![0; 64]] {
            assert!(packing.unpack(&*method, bytes, 10_000).is_err());
        }
    }
}
