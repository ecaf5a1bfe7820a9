//! Models of real numbers and of tables: predicted, written and exported.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

use formant_data::{Column, Normalisation, Schema, Source, SourceOptions, Values};
use formant_model::{
    Card, Format, ModelError, ModelFile, Predictor, encode, export, known_labels, labels,
};
use formant_numerics::{NetworkSpec, Rng, Shape, Stream};
use rten::{Model, ValueView};

fn column(name: &str, categories: &[&str]) -> Column {
    let categories: Vec<String> = categories.iter().map(ToString::to_string).collect();
    Column { name: name.into(), categories: (!categories.is_empty()).then_some(categories) }
}

/// A model of a table with an age, a weight and a colour.
fn table_model() -> ModelFile {
    let schema = Schema {
        columns: vec![
            column("age", &[]),
            column("weight", &[]),
            column("colour", &["blue", "red"]),
        ],
        label: "outcome".into(),
    };
    let normalisation = vec![
        Normalisation::new(40.0, 10.0),
        Normalisation::new(70.5, 3.25),
        Normalisation::NONE,
        Normalisation::NONE,
    ];
    let spec = NetworkSpec { hidden: Some(vec![5]), ..NetworkSpec::named("mlp") };
    file(spec, Shape::new(4, 1, 1), normalisation, Some(schema))
}

fn file(
    spec: NetworkSpec,
    input: Shape,
    normalisation: Vec<Normalisation>,
    schema: Option<Schema>,
) -> ModelFile {
    let network = spec.build(input, 3).unwrap();
    let model = network.init(&mut Rng::new(7, Stream::Init, 0, 0));
    let card = Card {
        network: spec,
        input,
        normalisation,
        values: Values::Floats,
        schema,
        classes: ["bad", "fair", "good"].map(String::from).to_vec(),
        ..Card::default()
    };
    ModelFile { card, model }
}

const ROWS: [f32; 12] = [30.0, 71.5, 1.0, 0.0, f32::NAN, 60.0, 0.0, 1.0, 55.5, f32::NAN, 0.0, 0.0];

#[test]
fn a_table_is_predicted_as_its_samples_are() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.csv");
    // Another order, a column that nobody needs, a colour that nobody knows.
    let text =
        "colour,outcome,id,weight,age\nblue,good,1,71.5,30\nred,bad,2,60,NA\ngreen,odd,3,,55.5\n";
    std::fs::write(&path, text).unwrap();
    let predictor = Predictor::new(table_model(), "memory").unwrap();
    let schema = predictor.card().schema.clone();
    let options = SourceOptions { schema, ..SourceOptions::default() };
    let source = Source::open(&path, &options).unwrap();
    let expected = predictor.probabilities(ROWS.to_vec(), 1).unwrap();
    let mut found = Vec::new();
    let done = predictor.each(&source, 2, |predicted| {
        found.extend_from_slice(predicted.probabilities);
        Ok::<(), ModelError>(())
    });
    assert!(done.unwrap().is_empty());
    assert_eq!(found, expected);
    assert_eq!(known_labels(predictor.card(), &source), [Some(2), Some(0), None]);
    let message = labels(predictor.card(), &source).unwrap_err().to_string();
    assert!(message.contains("\"odd\""), "{message}");
    // Pixels are not numbers.
    let message = predictor.probabilities(vec![0_u8; 4], 1).unwrap_err().to_string();
    assert!(message.contains("Bytes where it takes Floats"), "{message}");
}

#[test]
fn exported_graphs_standardise_and_fill_in() {
    let picture = file(
        NetworkSpec { hidden: Some(vec![6]), ..NetworkSpec::named("mlp") },
        Shape::new(2, 1, 3),
        vec![Normalisation::new(1.0, 2.0), Normalisation::new(-3.0, 0.5)],
        None,
    );
    for (model, extents) in [(table_model(), vec![3, 4]), (picture, vec![2, 2, 1, 3])] {
        let expected = Predictor::new(model.clone(), "memory").unwrap();
        let expected = expected.probabilities(ROWS.to_vec(), 1).unwrap();
        let graph = Model::load(export(&model, Format::Onnx).unwrap()).unwrap();
        let view = ValueView::from_shape(extents.as_slice(), &ROWS[..]).unwrap();
        let inputs = vec![(graph.node_id("values").unwrap(), view.into())];
        let outputs = [graph.node_id("probabilities").unwrap()];
        let [found] = graph.run_n(inputs, outputs, None).unwrap();
        let (shape, found) = found.into_shape_vec::<f32, 2>().unwrap();
        assert_eq!(shape, [extents[0], 3]);
        for (found, expected) in found.iter().zip(&expected) {
            assert!((f64::from(*found) - expected).abs() < 1e-6, "{found} {expected}");
        }
    }
}

#[test]
fn files_say_the_version_that_they_need() {
    let table = table_model();
    let bytes = export(&table, Format::Safetensors).unwrap();
    let back = ModelFile::from_bytes(&bytes, "memory").unwrap();
    assert_eq!(back.card.format, 2);
    assert_eq!((&back.card.schema, &back.model), (&table.card.schema, &table.model));
    // Pixels need nothing new: the file is what it always was.
    let mut pixels = table;
    (pixels.card.values, pixels.card.schema) = (Values::Bytes, None);
    let bytes = export(&pixels, Format::Safetensors).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("{\\\"format\\\":1,") && !text.contains("schema"), "{text}");
    assert_eq!(ModelFile::from_bytes(&bytes, "memory").unwrap(), pixels);
    let later = Card { format: 3, ..pixels.card };
    assert!(matches!(later.build("memory"), Err(ModelError::Newer { found: 3, known: 2, .. })));
}

#[test]
fn columns_that_do_not_make_the_input_are_refused() {
    let mut table = table_model();
    let network = table.card.build("memory").unwrap();
    table.card.schema.as_mut().unwrap().columns.pop();
    let message = table.card.build("memory").unwrap_err().to_string();
    assert!(message.contains("make 2 features, and its input is 4x1x1"), "{message}");
    let bytes = encode(network.layout(), &table.card, &table.model).unwrap();
    assert!(ModelFile::from_bytes(&bytes, "memory").is_err());
}
