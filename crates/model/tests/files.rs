//! Model files: whole, verified, and found where they lie.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

use formant_data::Normalisation;
use formant_model::folder::{self, BEST, GENERIC, MODELS, OWN, PERSONAL, Which};
use formant_model::{Card, MethodName, ModelFile, Role, encode, encoded_len, read_card};
use formant_numerics::{CATALOGUE, Model, NetworkSpec, Norm, Rng, Shape, Stem, Stream};
use safetensors::SafeTensors;
use std::fs;
use std::path::Path;

fn card(spec: &NetworkSpec, input: Shape) -> Card {
    Card {
        network: spec.complete(input),
        input,
        normalisation: vec![Normalisation::new(0.1307, 0.3081); input.channels],
        classes: ["zero", "one", "a \"quoted\" ☃"].map(str::to_owned).to_vec(),
        dataset: "mine".into(),
        experiment: "test".into(),
        method: MethodName { label: "SCD, λ = 3".into(), name: "scd".into() },
        role: Role::Personal { client: 7, name: Some("hospital".into()) },
        round: 12,
        seed: 5,
        ..Card::default()
    }
}

/// A model whose every value is another one, buffers too.
fn model(card: &Card) -> (Vec<u8>, Model) {
    let network = card.build("a test's").unwrap();
    let mut model = network.init(&mut Rng::new(9, Stream::Init, 0, 0));
    for (i, value) in model.buffers.iter_mut().enumerate() {
        *value += i as f32 * 1e-3;
    }
    (encode(network.layout(), card, &model).unwrap(), model)
}

fn specs() -> Vec<NetworkSpec> {
    let mut specs = Vec::new();
    for entry in CATALOGUE {
        let mut spec = NetworkSpec::named(entry.name);
        if entry.family.takes("width") {
            spec.width = Some(2);
            let group = NetworkSpec { norm: Some(Norm::Group), ..spec.clone() };
            specs.extend([group, NetworkSpec { stem: Some(Stem::Imagenet), ..spec.clone() }]);
        }
        specs.push(spec);
    }
    specs
}

#[test]
fn every_network_comes_back_as_it_was() {
    for spec in specs() {
        let card = card(&spec, Shape::new(3, 32, 32));
        let (bytes, model) = model(&card);
        let network = card.build("a test's").unwrap();
        assert!(bytes.len() as u64 <= encoded_len(network.layout(), &card), "{spec:?}");
        assert_eq!(bytes, encode(network.layout(), &card, &model).unwrap(), "the same every time");
        let read = ModelFile::from_bytes(&bytes, "memory").unwrap();
        assert_eq!((read.card, read.model), (card, model));
    }
}

#[test]
fn tensors_are_called_what_pytorch_calls_them() {
    let spec = NetworkSpec { width: Some(2), ..NetworkSpec::named("resnet18") };
    let (bytes, _) = model(&card(&spec, Shape::new(3, 32, 32)));
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    for (name, shape, dtype) in [
        ("conv1.weight", &[2, 3, 3, 3][..], "F32"),
        ("bn1.running_var", &[2], "F32"),
        ("bn1.num_batches_tracked", &[], "I64"),
        ("layer2.0.downsample.0.weight", &[4, 2, 1, 1], "F32"),
        ("layer4.1.bn2.bias", &[16], "F32"),
        ("fc.weight", &[3, 16], "F32"),
    ] {
        let tensor = tensors.tensor(name).unwrap();
        assert_eq!((tensor.shape(), &*tensor.dtype().to_string()), (shape, dtype), "{name}");
    }
    // 20 convolutions with a norm each (two parameters, two statistics, a counter), and the head.
    assert_eq!(tensors.len(), 20 + 20 * 5 + 2);
}

#[test]
fn a_changed_byte_anywhere_is_noticed_or_changes_nothing() {
    let spec = NetworkSpec { hidden: Some(vec![3]), ..NetworkSpec::named("mlp") };
    let (bytes, _) = model(&card(&spec, Shape::new(1, 2, 2)));
    let original = ModelFile::from_bytes(&bytes, "memory").unwrap();
    let mut harmless = 0;
    for place in 0..bytes.len() {
        for flip in [0x01, 0x10] {
            let mut damaged = bytes.clone();
            damaged[place] ^= flip;
            match ModelFile::from_bytes(&damaged, "damaged.safetensors") {
                Ok(read) => {
                    assert_eq!(read, original, "byte {place}");
                    harmless += 1;
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains("damaged.safetensors"), "{text}");
                    assert!(text.contains("\nhint: "), "{text}");
                }
            }
        }
    }
    // Blanks that pad the header may become other blanks, and nothing else.
    assert!(harmless < 16, "{harmless}");
    for length in [0, 7, 8, 100, bytes.len() - 1] {
        assert!(ModelFile::from_bytes(&bytes[..length], "cut").is_err(), "{length}");
    }
}

#[test]
fn what_is_no_model_of_ours_says_what_to_use_instead() {
    let share = safetensors::serialize(
        [(
            "x",
            safetensors::tensor::TensorView::new(safetensors::Dtype::U8, vec![1], &[1]).unwrap(),
        )],
        None,
    );
    let error = ModelFile::from_bytes(&share.unwrap(), "share").unwrap_err().to_string();
    assert!(error.contains("no entry `formant`") && error.contains("RUN/models"), "{error}");
    let card = card(&NetworkSpec::named("logistic"), Shape::new(1, 2, 2));
    let newer = Card { format: 99, formant: "7.0.0".into(), ..card.clone() };
    let network = card.build("a test's").unwrap();
    let mut model = network.init(&mut Rng::new(1, Stream::Init, 0, 0));
    let bytes = encode(network.layout(), &newer, &model).unwrap();
    let error = ModelFile::from_bytes(&bytes, "new").unwrap_err().to_string();
    assert!(error.contains("format 99") && error.contains("formant 7.0.0 or later"), "{error}");
    model.parameters[0] = f32::NAN;
    let bytes = encode(network.layout(), &card, &model).unwrap();
    let error = ModelFile::from_bytes(&bytes, "nan").unwrap_err().to_string();
    assert!(error.contains("not finite"), "{error}");
}

#[test]
fn labels_make_folders_that_stay_apart() {
    let names = folder::method_folders(["SCD", "scd", "..", "a. ", "ditto (λ=1)"]);
    assert_eq!(names, ["SCD", "scd-2", "method", "a", "ditto (λ=1)"]);
}

/// A model of a method.
fn put(path: &Path, label: &str, client: usize) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut card = card(&NetworkSpec::named("logistic"), Shape::new(1, 2, 2));
    card.method.label = label.into();
    card.role = Role::Personal { client, name: None };
    fs::write(path, model(&card).0).unwrap();
}

#[test]
fn a_label_finds_its_own_models_whatever_its_folder_is_called() {
    let run = tempfile::tempdir().unwrap();
    let labels = ["A", "a", "x.", "x", "y.tmp"];
    for (label, folder) in labels.iter().zip(folder::method_folders(labels)) {
        put(&run.path().join(MODELS).join(folder).join(GENERIC), label, 0);
    }
    for label in labels {
        let file = folder::locate(run.path(), Some(label), Which::Generic).unwrap();
        assert_eq!(ModelFile::read(&file).unwrap().card.method.label, label);
    }
    let y = folder::locate(run.path(), Some("Y.TMP"), Which::Generic).unwrap();
    assert_eq!(read_card(&y).unwrap().method.label, "y.tmp");
    assert_eq!(folder::all(run.path(), None).unwrap().len(), 5);
}

#[test]
fn a_card_that_promises_more_than_the_file_holds_takes_no_memory() {
    let spec = NetworkSpec { hidden: Some(vec![100_000, 100_000]), ..NetworkSpec::named("mlp") };
    let lie = card(&spec, Shape::new(1, 2, 2));
    let small = card(&NetworkSpec::named("logistic"), Shape::new(1, 2, 2));
    let network = small.build("a test's").unwrap();
    let model = network.init(&mut Rng::new(9, Stream::Init, 0, 0));
    let bytes = encode(network.layout(), &lie, &model).unwrap();
    let error = ModelFile::from_bytes(&bytes, "lie").unwrap_err().to_string();
    assert!(error.contains("its card says 1000"), "{error}");
}

#[test]
fn a_model_is_found_in_a_run_in_a_state_folder_and_by_its_own_name() {
    let run = tempfile::tempdir().unwrap();
    let models = run.path().join(MODELS);
    for method in ["SCD", "ditto"] {
        for name in [GENERIC, BEST, "personal/0.safetensors", "personal/10.safetensors"] {
            put(&models.join(method).join(name), method, 0);
        }
    }
    let find = |method, which| folder::locate(run.path(), method, which);
    assert_eq!(find(Some("SCD"), Which::Obvious).unwrap(), models.join("SCD").join(GENERIC));
    assert_eq!(find(Some("scd"), Which::Best).unwrap(), models.join("SCD").join(BEST));
    let tenth = models.join("ditto").join(PERSONAL).join("10.safetensors");
    assert_eq!(find(Some("ditto"), Which::Client(10)).unwrap(), tenth);
    assert_eq!(folder::locate(&models.join("ditto"), None, Which::Client(10)).unwrap(), tenth);
    assert_eq!(folder::locate(&models, Some("ditto"), Which::Client(10)).unwrap(), tenth);
    assert_eq!(folder::locate(&tenth, None, Which::Obvious).unwrap(), tenth);
    assert_eq!(folder::all(run.path(), None).unwrap().len(), 8);
    assert_eq!(folder::all(run.path(), Some("ditto")).unwrap().len(), 4);
    for (method, which, part) in [
        (None, Which::Obvious, "SCD, ditto"),
        (Some("fedavg"), Which::Obvious, "no models of the method fedavg"),
        (Some("SCD"), Which::Client(3), "no model of client 3; it has 0, 10"),
    ] {
        let error = find(method, which).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("\nhint: "), "{error}");
    }
    assert!(folder::locate(&tenth, Some("ditto"), Which::Obvious).is_err());

    let state = tempfile::tempdir().unwrap();
    put(&state.path().join(GENERIC), "SCD", 1);
    let find = |which| folder::locate(state.path(), None, which);
    assert_eq!(find(Which::Obvious).unwrap(), state.path().join(GENERIC), "a server's");
    put(&state.path().join(OWN), "SCD", 1);
    assert_eq!(find(Which::Obvious).unwrap(), state.path().join(OWN), "a client's");
    assert_eq!(find(Which::Generic).unwrap(), state.path().join(GENERIC));
    assert_eq!(find(Which::Client(1)).unwrap(), state.path().join(OWN));
    let error = find(Which::Client(2)).unwrap_err().to_string();
    assert!(error.contains("state folder of client 1, not of 2"), "{error}");
    assert_eq!(folder::all(state.path(), None).unwrap().len(), 2);
    let error = folder::locate(state.path(), Some("scd"), Which::Obvious).unwrap_err().to_string();
    assert!(error.contains("not a run folder"), "{error}");
    let empty = tempfile::tempdir().unwrap();
    assert!(folder::all(empty.path(), None).unwrap_err().to_string().contains("keeps no models"));
    assert!(folder::locate(empty.path(), None, Which::Obvious).is_err());
}
