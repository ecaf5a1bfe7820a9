//! An experiment that suits some data, with the reason for each choice: what `formant init --data` writes,
//! and what `formant run` does with data that no experiment file is about.

use crate::Origin;
use formant_data::Glance;
use formant_numerics::Shape;
use std::fmt::Write as _;
use toml::Value;

/// Samples that a whole run of the suggested methods should go over at most, by the rough cost of the
/// network: about a quarter of an hour on two cores.
const BUDGET: f64 = 3.0e6;
/// Passes over the data in a round: two epochs, of two models for two methods out of five.
const PASSES: f64 = 14.0;

/// A network that suits samples of a shape.
struct Suited {
    /// The lines of `[network]`.
    lines: String,
    why: &'static str,
    learning_rate: f64,
    /// Cost of a sample, in units of a `cnn`'s on 32x32.
    cost: f64,
}

/// The text of an experiment on some data.
pub fn suggestion(origin: &Origin, glance: &Glance) -> String {
    let clients = glance.clients.unwrap_or((glance.train / 100).clamp(2, 20));
    let each = glance.train * 3 / 4 / clients.max(1);
    let network = network(glance);
    let batch = match each {
        0..200 => 10,
        200..1_000 => 20,
        _ => 32,
    };
    let affordable = BUDGET / (network.cost * PASSES * glance.train as f64 * 0.75);
    let rounds = (affordable as usize).clamp(5, 30);
    let mut text = format!(
        "# Drawn up for {} ({}): {} samples of {} to divide, {} to test on, {} classes.\n\
         # Run it with: formant run FILE. `formant init` shows every key that there is.\n",
        glance.name, glance.format, glance.train, glance.shape, glance.test, glance.classes
    );
    let mut line = |text_of: String, why: &str| {
        let _ = writeln!(text, "# {why}\n{text_of}");
    };
    line(format!("name = {}", Value::String(glance.name.clone())), "Names the run folder.");
    line("seed = 1".into(), "Same seed, same bits. Compare over several: --seed 2, --seed 3.");
    let why_rounds = if rounds < 30 {
        "Fewer than the usual 30, so that all methods end within about a quarter of an hour on two cores: more are better."
    } else {
        "Enough to see which method serves the data; papers take hundreds."
    };
    line(format!("rounds = {rounds}"), why_rounds);
    text.push_str(&data(origin, glance, clients));
    let _ = write!(text, "\n[network]\n# {}\n{}\n", network.why, network.lines);
    let rate = network.learning_rate;
    let _ = write!(
        text,
        "\n[train]\n\
         # A client trains on about {each} samples: small batches make enough steps of them.\n\
         batch = {batch}\n\
         # Two epochs a round of either model: more let the clients drift apart.\n\
         epochs = 2\npersonal_epochs = 2\n\
         # A rate at which this network trains steadily with momentum; the first thing to tune:\n\
         # formant sweep FILE --method fedavg --grid train.learning_rate=0.005,0.01,0.02,0.05\n\
         learning_rate = {rate}\nmomentum = 0.9\n\
         # One bad batch cannot throw a model off.\n\
         clip = 10.0\n"
    );
    text.push_str(&evaluation(glance, rounds));
    text.push_str(&methods(rate));
    text
}

fn data(origin: &Origin, glance: &Glance, clients: usize) -> String {
    let mut text = String::from("\n[data]\n");
    let texts = [
        ("source", Some(&origin.source)),
        ("label", origin.label.as_ref()),
        ("features", origin.features.as_ref()),
        ("client", origin.client.as_ref()),
        ("normalisation", origin.normalisation.as_ref()),
    ];
    for (key, value) in texts {
        if let Some(value) = value {
            let _ = writeln!(text, "{key} = {}", Value::String(value.clone()));
        }
    }
    if let Some(dir) = &origin.dir {
        let _ = writeln!(text, "dir = {}", Value::String(dir.display().to_string()));
    }
    if let Some(size) = origin.size {
        let _ = writeln!(text, "size = \"{}\"", String::from(size));
    }
    for (key, names) in [("exclude", &origin.exclude)] {
        if let Some(names) = names {
            let names = names.iter().cloned().map(Value::String).collect();
            let _ = writeln!(text, "{key} = {}", Value::Array(names));
        }
    }
    if let Some(fraction) = origin.test_fraction {
        let _ = writeln!(text, "test_fraction = {fraction}");
    }
    if origin.skip_bad == Some(true) {
        text.push_str("skip_bad = true\n");
    }
    for remark in &glance.remarks {
        let _ = writeln!(text, "# {remark}");
    }
    let least = (glance.train / clients.max(1) / 5).clamp(2, 20);
    if glance.clients.is_some() {
        let _ = write!(
            text,
            "# The data say whose each sample is: these {clients} clients take part as they are.\n\
             partition = \"natural\"\n"
        );
    } else {
        let _ = write!(
            text,
            "# About {} samples for each client.\nclients = {clients}\n\
             # Clients differ in their labels; 0.1 makes them differ much, partition = \"iid\" not at all.\n\
             partition = \"dirichlet\"\nalpha = 0.5\n",
            glance.train / clients.max(1)
        );
    }
    let _ = write!(
        text,
        "min_samples = {least}\n\
         # The rest of a client's samples is what its personal model is judged on.\n\
         train_fraction = 0.75\n"
    );
    if !glance.is_table() && glance.shape.channels == 3 {
        text.push_str(
            "\n# Shifted and mirrored copies pay in long runs; in few rounds they slow learning down (docs/TRAINING.md).\n\
             # [data.augment]\n# crop = 4\n# flip = 0.5\n",
        );
    }
    text
}

fn network(glance: &Glance) -> Suited {
    let Shape { channels, height, width } = glance.shape;
    let (side, longest) = (height.min(width), height.max(width));
    let pixels = (height * width) as f64 / 1_024.0;
    let suited = |lines: &str, why, learning_rate, cost| Suited {
        lines: lines.into(),
        why,
        learning_rate,
        cost,
    };
    if glance.is_table() {
        let hidden = if channels > 200 { "[256, 64]" } else { "[64, 32]" };
        let lines = format!("name = \"mlp\"\nhidden = {hidden}");
        return suited(&lines, "Rows of features: fully connected layers.", 0.02, 0.01);
    }
    if side < 16 {
        let why = "Pictures too small for convolutions: fully connected layers.";
        return suited("name = \"mlp\"", why, 0.02, 0.05);
    }
    if longest > 40 {
        let why = "Residual, narrow enough for a processor; group norms, since batch statistics of clients that differ do not average well.";
        let lines = "name = \"resnet18\"\nwidth = 16\nnorm = \"group\"";
        return suited(lines, why, 0.05, 4.0 * pixels);
    }
    if channels == 1 {
        let why = "Small grey pictures: LeNet-5 is enough and quick.";
        return suited("name = \"lenet5\"", why, 0.02, 0.15 * pixels);
    }
    let why =
        "Small colour pictures: two convolutions and a hidden layer, as federated papers have it.";
    suited("name = \"cnn\"", why, 0.01, pixels)
}

fn evaluation(glance: &Glance, rounds: usize) -> String {
    let every = if rounds > 15 { 2 } else { 1 };
    let mut text = format!("\n[evaluation]\nevery = {every}\n");
    // Twice its fair share.
    if glance.largest_class * glance.classes > 2 * glance.train {
        text.push_str(
            "# The largest class has more than twice its share: accuracy alone would praise who names it always.\n\
             metrics = [\"accuracy\", \"balanced_accuracy\", \"macro_f1\"]\n",
        );
    }
    text
}

fn methods(rate: f64) -> String {
    let rounded = |x: f64| (x * 1e6).round() / 1e6;
    let (slow, slower) = (rounded(rate * 0.4), rounded(rate * 0.1));
    format!(
        "
# What training alone is worth.
[[method]]
name = \"local\"
train = {{ personal_learning_rate = {slow} }}

# What one model for all is worth.
[[method]]
name = \"fedavg\"

# The strongest simple personalisation.
[[method]]
name = \"ditto\"
lambda = 1.0
train = {{ personal_learning_rate = {slower} }}

# The two models interpolated before each personal phase, and nothing else: what a spectrum has to beat.
[[method]]
name = \"scd\"
label = \"Blend\"
lambda_g = 0.0
lambda_p = 0.0
blend = 0.5
train = {{ personal_learning_rate = {slower} }}

# Spectral co-distillation: the generic model is pulled towards low frequencies of the personal one, and that one towards the
# generic one's whole spectrum, with shares of the loss's gradient.
[[method]]
name = \"scd\"
label = \"SCD\"
tau = 0.02
strength_g = 0.3
strength_p = 0.1
blend = 0.5
fft_length = \"fast\"
train = {{ personal_learning_rate = {slower} }}
"
    )
}
