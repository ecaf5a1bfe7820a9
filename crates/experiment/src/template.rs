//! The commented experiment file that `formant init` writes, drawn up from the key tables.

use crate::attack;
use crate::section::SECTIONS;
use formant_methods::Zoo;
use formant_methods::schema::Key;
use std::fmt::Write as _;

/// A complete experiment with every key, its default, its range and its meaning.
pub fn template(zoo: &Zoo) -> String {
    let mut text = String::from(
        "# An experiment of Formant. Run it with: formant run experiment.toml\n\
         # Every key is shown with its default; a key behind # is unset.\n\
         # Change one for a single run with --set, e.g. --set rounds=10 --set method.lambda_p=3\n\n",
    );
    for section in SECTIONS {
        if !section.name.is_empty() {
            let _ = writeln!(text, "# {}\n[{}]", section.help, section.name);
        }
        for key in section.keys {
            write_key(&mut text, key);
        }
        text.push('\n');
    }
    text.push_str(attack::EXAMPLE);
    text.push_str(
        "# The methods to compare, one [[method]] each. Any key of [train] can be set for one method\n\
         # alone: train = { learning_rate = 0.1 }. A label tells two settings of one method apart.\n",
    );
    for entry in zoo.entries() {
        let _ = writeln!(text, "\n# {} ({}): {}", entry.title, entry.citation, entry.summary);
        let _ = writeln!(text, "[[method]]\nname = \"{}\"", entry.name);
        for key in entry.keys {
            write_key(&mut text, key);
        }
    }
    text
}

fn write_key(text: &mut String, key: &Key) {
    let symbol = if key.symbol.is_empty() { String::new() } else { format!("{}: ", key.symbol) };
    let _ = writeln!(text, "# {symbol}{} ({})", key.help, key.kind.describe());
    let _ = match key.default_value() {
        Some(value) => writeln!(text, "{} = {value}", key.name),
        None => writeln!(text, "# {} =", key.name),
    };
}

#[cfg(test)]
mod tests {
    use crate::{Experiment, MethodSetting};

    #[test]
    fn the_template_is_a_valid_experiment_of_defaults() {
        let zoo = formant_methods::Zoo::standard();
        let table = super::template(&zoo).parse().unwrap();
        let from_template = Experiment::parse(&table, &[], &zoo).unwrap();
        let methods: Vec<_> = from_template.methods.iter().map(MethodSetting::name).collect();
        let names: Vec<_> = zoo.entries().iter().map(|e| e.name).collect();
        assert_eq!(methods, names);
        let bare: Vec<_> =
            names.iter().map(|name| format!("[[method]]\nname = \"{name}\"")).collect();
        let bare = bare.join("\n").parse().unwrap();
        assert_eq!(from_template, Experiment::parse(&bare, &[], &zoo).unwrap());
    }
}
