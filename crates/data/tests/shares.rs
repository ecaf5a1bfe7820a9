//! A client's own data in one file.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

use formant_data::{
    Dataset, Federation, Partition, PartitionPlan, Portion, Repair, Share, Split, description,
};
use formant_numerics::{Rng, Shape, Stream};
use proptest::prelude::*;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use std::sync::Arc;

const SHAPE: Shape = Shape::new(1, 2, 2);

fn samples(labels: &[u16]) -> Portion {
    let pixels = (0..4 * labels.len()).map(|i| i as u8).collect();
    Portion { pixels, labels: labels.to_vec() }
}

fn share() -> Share {
    Share::new(SHAPE, samples(&[3, 300, 0]), samples(&[1]), Portion::default()).unwrap()
}

fn federation() -> Federation {
    let dataset = Arc::new(Dataset::load("mnist-small", None).unwrap());
    let plan = PartitionPlan {
        clients: Some(5),
        partition: Partition::Dirichlet { alpha: 0.3 },
        part: None,
        samples: Some(500),
        min_samples: 20,
        repair: Repair::Move,
        train_fraction: 0.6,
        validation_fraction: 0.2,
        seed: 1,
    };
    Federation::new(dataset, &plan).unwrap()
}

#[test]
fn a_share_comes_back_from_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("client.safetensors");
    for _ in 0..2 {
        std::fs::write(&path, share().to_bytes().unwrap()).unwrap();
        let read = Share::read(&path).unwrap();
        assert_eq!(read.shape(), SHAPE);
        assert_eq!(read.train(), share().train());
        assert_eq!(read.validation(), share().validation());
        assert!(read.test().is_empty());
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "a temporary file is left");
}

#[test]
fn every_kind_of_whole_number_is_a_label() {
    let images = [0_u8; 8];
    let kinds: [(Dtype, Vec<u8>); 4] = [
        (Dtype::U8, vec![1, 2]),
        (Dtype::U16, vec![1, 0, 2, 0]),
        (Dtype::I32, vec![1, 0, 0, 0, 2, 0, 0, 0]),
        (Dtype::I64, [1_i64, 2].map(i64::to_le_bytes).concat()),
    ];
    for (kind, labels) in kinds {
        let bytes = file(&[
            ("train.images", Dtype::U8, &[2, 1, 2, 2], &images),
            ("train.labels", kind, &[2], &labels),
        ]);
        assert_eq!(Share::from_bytes(&bytes, "x").unwrap().train().labels, [1, 2], "{kind}");
    }
}

/// What makes training on a share bit for bit what the simulator does: the same values in the same
/// batches, whatever the indices are called.
#[test]
fn batches_are_those_of_the_simulator() {
    let dir = tempfile::tempdir().unwrap();
    let federation = federation();
    for (client, held) in federation.clients.iter().enumerate() {
        let path = dir.path().join("client.safetensors");
        let bytes = Share::of_client(&federation, client).unwrap().to_bytes().unwrap();
        std::fs::write(&path, bytes).unwrap();
        let known = description("mnist-small").unwrap();
        let (own, mine) = Share::read(&path).unwrap().into_dataset("own", &known).unwrap();
        assert_eq!(own.class_names, federation.dataset.class_names);
        assert!(own.test.is_empty());
        for split in [Split::Train, Split::Validation, Split::Test] {
            let batch = |dataset: &Dataset, indices: Vec<u32>| {
                let mut order = indices;
                Rng::new(7, Stream::Split, 1, 2).shuffle(&mut order);
                let mut values = vec![0.0_f32; order.len() * dataset.shape.len()];
                let mut labels = Vec::new();
                dataset.train.gather(&order, &mut values);
                dataset.train.gather_labels(&order, &mut labels);
                let bits: Vec<u32> = values.into_iter().map(f32::to_bits).collect();
                (bits, labels)
            };
            let simulated = batch(&federation.dataset, held.indices(split).collect());
            assert!(!simulated.1.is_empty());
            assert!(simulated == batch(&own, mine.indices(split).collect()), "{client} {split:?}");
        }
    }
}

type Tensor<'a> = (&'a str, Dtype, &'a [usize], &'a [u8]);

fn file(tensors: &[Tensor<'_>]) -> Vec<u8> {
    let views = tensors.iter().map(|&(name, kind, shape, data)| {
        (name, TensorView::new(kind, shape.to_vec(), data).unwrap())
    });
    safetensors::serialize(views, None).unwrap()
}

#[test]
fn every_damage_is_named() {
    let zeros = [0_u8; 64];
    let minus = (-1_i64).to_le_bytes();
    let huge = 65_536_i32.to_le_bytes();
    let images: Tensor<'_> = ("train.images", Dtype::U8, &[1, 1, 2, 2], &zeros[..4]);
    let labels: Tensor<'_> = ("train.labels", Dtype::U8, &[1], &zeros[..1]);
    let cases: [(&[Tensor<'_>], &str); 14] = [
        (&[], "the tensor train.images is missing; there is none"),
        (&[images], "train.labels is missing; there is train.images"),
        (&[labels], "train.images is missing; there is train.labels"),
        (&[images, labels, ("valid.images", Dtype::U8, &[0], &[])], "\"valid.images\" is not part"),
        (&[images, labels, ("test.labels", Dtype::U8, &[0], &[])], "test.images is missing"),
        (
            &[("train.images", Dtype::F32, &[1, 1, 2, 2], &zeros[..16]), labels],
            "train.images is of type F32, expected U8",
        ),
        (&[("train.images", Dtype::U8, &[1, 2, 2], &zeros[..4]), labels], "extents [1, 2, 2]"),
        (&[images, ("train.labels", Dtype::U8, &[1, 1], &zeros[..1])], "extents [1, 1]"),
        (&[images, ("train.labels", Dtype::F32, &[1], &zeros[..4])], "labels is of type F32"),
        (
            &[images, ("train.labels", Dtype::U8, &[2], &zeros[..2])],
            "2 entries, but train.images 1",
        ),
        (
            &[images, ("train.labels", Dtype::I64, &[1], &minus)],
            "train.labels[0] = -1 is not a class",
        ),
        (&[images, ("train.labels", Dtype::I32, &[1], &huge)], "train.labels[0] = 65536 is no"),
        (
            &[
                ("train.images", Dtype::U8, &[0, 1, 2, 2], &[]),
                ("train.labels", Dtype::U8, &[0], &[]),
            ],
            "train.labels has no entries",
        ),
        (
            &[
                images,
                labels,
                ("test.images", Dtype::U8, &[1, 1, 1, 2], &zeros[..2]),
                ("test.labels", Dtype::U8, &[1], &zeros[..1]),
            ],
            "test.images holds images of 1x1x2, but train.images of 1x2x2",
        ),
    ];
    for (tensors, part) in cases {
        let message = Share::from_bytes(&file(tensors), "a.safetensors").unwrap_err().to_string();
        assert!(message.starts_with("a.safetensors: "), "{message}");
        assert!(message.contains(part) && message.contains("\nhint: "), "{message}");
    }
    let flat: Tensor<'_> = ("train.images", Dtype::U8, &[1, 1, 0, 2], &[]);
    let message = Share::from_bytes(&file(&[flat, labels]), "a").unwrap_err().to_string();
    assert!(message.contains("1x0x2, which have no pixels"), "{message}");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("client.safetensors");
    let message = || Share::read(&path).unwrap_err().to_string();
    assert!(message().contains("client.safetensors") && message().contains("not there"));
    let whole = share().to_bytes().unwrap();
    for cut in [0, 4, 100, whole.len() - 1] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let message = message();
        assert!(message.contains("client.safetensors: it is not a complete"), "{message}");
        assert!(message.contains("\nhint: write the file again"), "{message}");
    }
    let message = Share::read(dir.path()).unwrap_err().to_string();
    assert!(message.contains("not a regular file") && message.contains("\nhint: "), "{message}");
}

#[test]
fn what_does_not_fit_the_experiment_is_refused() {
    let message = share().check(SHAPE, 10).unwrap_err().to_string();
    assert!(message.contains("train.labels[1] = 300 is not a class"), "{message}");
    assert!(message.contains("\nhint: there are 10 classes"), "{message}");
    let known = description("mnist").unwrap();
    let message = share().into_dataset("x", &known).unwrap_err().to_string();
    assert!(message.contains("images of 1x2x2, not of 1x28x28"), "{message}");
    let uneven = Portion { pixels: vec![0; 5], labels: vec![0] };
    let message = Share::new(SHAPE, uneven, samples(&[]), samples(&[])).unwrap_err().to_string();
    assert!(message.contains("train.images has 5 bytes"), "{message}");
    assert!(Share::new(SHAPE, samples(&[]), samples(&[]), samples(&[])).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_an_error_at_worst(bytes: Vec<u8>) {
        prop_assert!(Share::from_bytes(&bytes, "x").is_err());
    }

    #[test]
    fn any_header_is_an_error_at_worst(
        header in "\\{(\"(train|test)\\.(images|labels)\":\\{\"dtype\":\"(U8|I64|F4)\",\"shape\":\\[[0-9]{1,20}(,[0-9]{1,3}){0,4}\\],\"data_offsets\":\\[0,[0-9]{1,3}\\]\\},?){0,3}\\}",
        rest in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&rest);
        let _ = Share::from_bytes(&bytes, "x");
    }

    #[test]
    fn damage_anywhere_is_an_error_at_worst(at in 0_usize..600, byte: u8) {
        let mut bytes = share().to_bytes().unwrap();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(share) = Share::from_bytes(&bytes, "x") {
            prop_assert!(!share.train().is_empty());
        }
    }
}
