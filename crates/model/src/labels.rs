//! Labels of a source as classes of a model.

use crate::{Card, ModelError};
use formant_data::Source;

/// The class of the model for each image of a source, found by name where the source names its
/// classes. An error that lists the names where one is not the model's.
pub fn labels(card: &Card, source: &Source) -> Result<Vec<u16>, ModelError> {
    let labels = source.labels()?;
    let Some(names) = source.class_names() else {
        return numbered(card, source.origin(), labels);
    };
    let Matched { classes, strangers } = matched(card, names);
    if !strangers.is_empty() {
        return Err(choice(
            format!(
                "{}: no class of the model is called {}; it has {}",
                source.origin(),
                listed(&strangers),
                listed(&card.classes)
            ),
            "name the folders of images after the model's classes, or choose another model",
        ));
    }
    Ok(labels.iter().filter_map(|label| classes[usize::from(*label)]).collect())
}

/// The same where it helps: nothing for images whose label is not known or not one of the model's.
pub fn known_labels(card: &Card, source: &Source) -> Vec<Option<u16>> {
    let Ok(labels) = source.labels() else { return vec![None; source.len()] };
    let classes = match source.class_names() {
        Some(names) => matched(card, names).classes,
        None => (0..card.classes.len()).map(|class| Some(class as u16)).collect(),
    };
    labels.iter().map(|label| classes.get(usize::from(*label)).copied().flatten()).collect()
}

fn numbered(card: &Card, origin: &str, labels: &[u16]) -> Result<Vec<u16>, ModelError> {
    let classes = card.classes.len();
    match labels.iter().position(|label| usize::from(*label) >= classes) {
        None => Ok(labels.to_vec()),
        Some(i) => Err(choice(
            format!(
                "{origin}: the label {} of image {i} is not a class of the model, which has {classes}",
                labels[i]
            ),
            &format!("number the classes from 0 to {} as the model does", classes - 1),
        )),
    }
}

/// Names of a source, compared with the classes of a model.
struct Matched {
    /// The model's class for each name.
    classes: Vec<Option<u16>>,
    /// Names that the model does not know.
    strangers: Vec<String>,
}

fn matched(card: &Card, names: &[String]) -> Matched {
    let plain = |name: &str| name.trim().to_lowercase().replace(['_', '-'], " ");
    let find = |name: &String| {
        let exact = card.classes.iter().position(|class| class == name);
        exact.or_else(|| {
            let mut alike =
                card.classes.iter().enumerate().filter(|(_, class)| plain(class) == plain(name));
            // Two classes that differ by case alone are two classes.
            alike.next().filter(|_| alike.next().is_none()).map(|(class, _)| class)
        })
    };
    let classes: Vec<Option<u16>> =
        names.iter().map(|name| find(name).map(|class| class as u16)).collect();
    let strangers = names.iter().zip(&classes).filter(|(_, class)| class.is_none());
    let strangers = strangers.map(|(name, _)| name.clone()).collect();
    Matched { classes, strangers }
}

/// Names in quotes, of many only the first.
fn listed(names: &[String]) -> String {
    const MOST: usize = 20;
    let shown: Vec<_> = names.iter().take(MOST).map(|name| format!("{name:?}")).collect();
    let more = names.len().saturating_sub(MOST);
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{rest}", shown.join(", "))
}

fn choice(found: String, remedy: &str) -> ModelError {
    ModelError::Choice { found, remedy: remedy.into() }
}
