//! Exported graphs, run by an ONNX runtime: they give Formant's logits.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

#[path = "../examples/samples/catalogue.rs"]
mod catalogue;

use catalogue::{Sample, logits, pixels, samples};
use formant_model::{Card, Format, ModelFile, export};
use formant_numerics::{Shape, softmax};
use rten::{Model, ValueView};

/// Of the largest logit.
const TOLERANCE: f32 = 1e-5;

/// What the runtime gives for some images: logits and probabilities.
fn run(graph: &Model, input: Shape, pixels: &[u8]) -> [Vec<f32>; 2] {
    let shape = [pixels.len() / input.len(), input.channels, input.height, input.width];
    let view = ValueView::from_shape(shape, pixels).unwrap();
    let inputs = vec![(graph.node_id("pixels").unwrap(), view.into())];
    let outputs = ["logits", "probabilities"].map(|name| graph.node_id(name).unwrap());
    graph.run_n(inputs, outputs, None).unwrap().map(|output| {
        let (shape, values) = output.into_shape_vec::<f32, 2>().unwrap();
        assert_eq!(shape, [pixels.len() / input.len(), 7]);
        values
    })
}

fn largest(values: impl IntoIterator<Item = f32>) -> f32 {
    values.into_iter().map(f32::abs).fold(0.0, f32::max)
}

fn difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    largest(a.iter().zip(b).map(|(a, b)| a - b))
}

#[test]
fn every_network_gives_the_same_logits() {
    for Sample { name, file } in samples().unwrap() {
        let input = file.card.input;
        let graph = Model::load(export(&file, Format::Onnx).unwrap()).unwrap();
        for count in [1, 3] {
            let pixels = pixels(input, count);
            let ours = logits(&file, &pixels).unwrap();
            let [theirs, probabilities] = run(&graph, input, &pixels);
            let scale = largest(ours.iter().copied());
            let off = difference(&ours, &theirs) / scale;
            assert!(off < TOLERANCE, "{name}: {count} images differ by {off:e} of {scale}");
            println!("{name}, {count} images: {off:.1e} of {scale:.2}");
            let mut expected = ours.clone();
            softmax(&mut expected, 7);
            let off = difference(&expected, &probabilities);
            assert!(off < TOLERANCE * scale.max(1.0), "{name}: probabilities differ by {off:e}");
            // What does not depend on the image proves nothing.
            if let [first, second, _] = ours.chunks(7).collect::<Vec<_>>()[..] {
                assert!(difference(first, second) > 0.01 * scale, "{name} does not see its image");
            }
        }
    }
}

#[test]
fn what_a_graph_says_of_itself() {
    let Sample { file, .. } = samples().unwrap().remove(0);
    let bytes = export(&file, Format::Onnx).unwrap();
    assert!(bytes == export(&file, Format::Onnx).unwrap(), "the same model, other bytes");
    let graph = Model::load(bytes).unwrap();
    let shape = graph.input_shape(0).unwrap();
    assert_eq!(format!("{shape:?}"), r#"["batch", 3, 6, 5]"#);
    let entry = |name: &str| {
        let mut fields = graph.metadata().fields();
        fields.find(|(field, _)| *field == name).unwrap().1
    };
    assert_eq!(serde_json::from_str::<Card>(entry("formant")).unwrap(), file.card);
    assert_eq!(serde_json::from_str::<Vec<String>>(entry("classes")).unwrap(), file.card.classes);
    assert_eq!(entry("producer_name"), "formant");
}

#[test]
fn a_model_that_is_not_its_cards_is_refused() {
    let Sample { mut file, .. } = samples().unwrap().remove(0);
    file.model.parameters.pop();
    for format in Format::ALL {
        let said = export(&file, format).unwrap_err().to_string();
        assert!(said.contains("parameters") && said.contains("hint:"), "{said}");
    }
}

#[test]
fn safetensors_are_the_file_itself() {
    let Sample { file, .. } = samples().unwrap().remove(0);
    let bytes = export(&file, Format::Safetensors).unwrap();
    assert_eq!(ModelFile::from_bytes(&bytes, "memory").unwrap(), file);
}
