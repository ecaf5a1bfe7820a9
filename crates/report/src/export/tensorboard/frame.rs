//! Records as TensorFlow frames them: length, check of the length, bytes, check of the bytes.

/// Appends a record to a file.
pub(super) fn append(file: &mut Vec<u8>, record: &[u8]) {
    let length = (record.len() as u64).to_le_bytes();
    file.extend(length);
    file.extend(masked(crc32c(&length)).to_le_bytes());
    file.extend(record);
    file.extend(masked(crc32c(record)).to_le_bytes());
}

/// Checks of data that hold checks would be weak, which is why they are turned and shifted.
fn masked(check: u32) -> u32 {
    check.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C: the polynomial of Castagnoli, reflected.
fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    !bytes
        .iter()
        .fold(!0, |crc, byte| (crc >> 8) ^ TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize])
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// The records of a file, every check looked at.
#[cfg(test)]
pub(super) fn records(mut file: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while !file.is_empty() {
        let (head, rest) = file.split_at(12);
        let length = u64::from_le_bytes(head[..8].try_into().unwrap());
        assert_eq!(head[8..], masked(crc32c(&head[..8])).to_le_bytes());
        let (record, rest) = rest.split_at(length as usize);
        let (check, rest) = rest.split_at(4);
        assert_eq!(check, masked(crc32c(record)).to_le_bytes());
        records.push(record.to_vec());
        file = rest;
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_those_of_rfc_3720() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        // Appendix B.4 of the RFC.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&ascending), 0x46dd_794e);
    }

    #[test]
    fn a_record_is_framed_as_tensorboard_does() {
        let mut file = Vec::new();
        append(&mut file, b"formant");
        let (head, content, check) = ("0700000000000000bbd79f11", "666f726d616e74", "c7a0c5cb");
        let hex: Vec<String> = file.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex.concat(),
            [head, content, check].concat(),
            "what tensorboard's RecordWriter writes"
        );
        append(&mut file, b"");
        assert_eq!(records(&file), [b"formant".to_vec(), Vec::new()]);
    }
}
