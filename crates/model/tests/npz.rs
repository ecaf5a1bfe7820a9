//! The NumPy archive: every tensor under PyTorch's name, the card beside them, the same bytes each time.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

#[path = "../examples/samples/catalogue.rs"]
#[expect(dead_code, reason = "this test needs models, but no logits")]
mod catalogue;

use formant_model::{Card, Format, export};
use std::collections::BTreeMap;
use std::io::{Cursor, Read};

/// The members of an archive by name.
fn members(bytes: Vec<u8>) -> BTreeMap<String, Vec<u8>> {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
    (0..archive.len())
        .map(|i| {
            let mut member = archive.by_index(i).unwrap();
            let mut content = Vec::new();
            member.read_to_end(&mut content).unwrap();
            (member.name().unwrap().into_owned(), content)
        })
        .collect()
}

/// Header and values of a `.npy` file.
fn array(content: &[u8]) -> (&str, &[u8]) {
    assert_eq!(&content[..8], b"\x93NUMPY\x01\x00");
    let len = usize::from(u16::from_le_bytes([content[8], content[9]]));
    assert_eq!((10 + len) % 64, 0);
    (std::str::from_utf8(&content[10..10 + len]).unwrap().trim_end(), &content[10 + len..])
}

#[test]
fn every_tensor_is_there() {
    for sample in catalogue::samples().unwrap() {
        let file = &sample.file;
        let bytes = export(file, Format::Npz).unwrap();
        assert!(bytes == export(file, Format::Npz).unwrap(), "the same model, other bytes");
        let mut members = members(bytes);
        let card = members.remove("formant.json").unwrap();
        assert_eq!(serde_json::from_slice::<Card>(&card).unwrap(), file.card);
        let network = file.card.build("a sample").unwrap();
        let layout = network.layout();
        for (tensors, values) in
            [(layout.tensors(), &file.model.parameters), (layout.buffers(), &file.model.buffers)]
        {
            for tensor in tensors {
                let content = members.remove(&format!("{}.npy", tensor.name)).unwrap();
                let (header, data) = array(&content);
                let extents: Vec<_> = tensor.shape.iter().map(ToString::to_string).collect();
                let comma = if extents.len() == 1 { "," } else { "" };
                let shape = extents.join(", ") + comma;
                let expected =
                    format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape}), }}");
                assert_eq!(header, expected);
                let expected: Vec<u8> =
                    values[tensor.range.clone()].iter().flat_map(|v| v.to_le_bytes()).collect();
                assert!(data == expected, "{}: {} has other values", sample.name, tensor.name);
            }
        }
        // What is left are the counters that PyTorch's batch norms insist on.
        assert_eq!(members.len(), layout.buffers().len() / 2, "{}", sample.name);
        for (name, content) in &members {
            assert!(name.ends_with(".num_batches_tracked.npy"), "{name}");
            let header = "{'descr': '<i8', 'fortran_order': False, 'shape': (), }";
            assert_eq!(array(content), (header, [0; 8].as_slice()));
        }
    }
}
