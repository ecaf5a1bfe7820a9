//! Models and pictures for the tests of what uses them.

use crate::terminal::Terminal;
use formant_data::{Dataset, Samples};
use formant_model::{Card, MethodName, ModelFile, Role};
use formant_numerics::{
    Cpu, Descent, Engine, NetworkSpec, Objective, Optimiser, Part, Rng, Stream, Tape,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

pub(crate) static DIGITS: LazyLock<Dataset> =
    LazyLock::new(|| Dataset::load("mnist-small", None).unwrap());

/// A model that knows most digits.
static DIGIT_MODEL: LazyLock<ModelFile> = LazyLock::new(|| {
    let spec = NetworkSpec::named("logistic");
    let network = spec.build(DIGITS.shape, 10).unwrap();
    let mut model = network.init(&mut Rng::new(1, Stream::Init, 0, 0));
    let mut worker = Cpu::new(network).worker(100);
    worker.begin();
    let descent = Descent { optimiser: Optimiser::sgd(0.05), part: Part::All };
    for step in 0..80_u32 {
        let indices: Vec<u32> = (step * 100..(step + 1) * 100).collect();
        worker.load(&*DIGITS.train, &indices);
        worker.step(&mut model, descent, &Objective::CROSS_ENTROPY).unwrap();
    }
    let card = Card {
        network: spec,
        input: DIGITS.shape,
        normalisation: DIGITS.test.normalisation().to_vec(),
        classes: DIGITS.class_names.clone(),
        dataset: "mnist-small".into(),
        experiment: "workshop".into(),
        method: MethodName { label: "Ditto".into(), name: "ditto".into() },
        role: Role::Personal { client: 3, name: None },
        round: 80,
        seed: 1,
        ..Card::default()
    };
    ModelFile { card, model }
});

pub(crate) fn digit_model() -> ModelFile {
    DIGIT_MODEL.clone()
}

pub(crate) fn network(file: &ModelFile) -> Arc<Tape> {
    file.card.build("workshop").unwrap()
}

/// Writes a model file.
pub(crate) fn write(file: &ModelFile, path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let bytes = formant_model::encode(network(file).layout(), &file.card, &file.model).unwrap();
    std::fs::write(path, bytes).unwrap();
}

impl Terminal {
    /// A terminal in a folder with the model `digits.safetensors`.
    pub(crate) fn with_digits() -> Self {
        let terminal = Self::new();
        write(&digit_model(), &terminal.path("digits.safetensors"));
        terminal
    }

    /// Saves a test digit as a picture.
    pub(crate) fn save(&self, i: usize, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        picture(&*DIGITS.test, i).save(&path).unwrap();
        path
    }
}

pub(crate) fn picture(images: &dyn Samples, i: usize) -> image::GrayImage {
    image::GrayImage::from_raw(28, 28, images.bytes(i).unwrap().to_vec()).unwrap()
}

/// The bytes of an IDX file.
pub(crate) fn idx(extents: &[u32], content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, extents.len() as u8];
    bytes.extend(extents.iter().flat_map(|extent| extent.to_be_bytes()));
    [bytes, content.to_vec()].concat()
}
