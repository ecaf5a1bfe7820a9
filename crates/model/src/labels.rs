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
    let (found, strangers) = matched(card, names);
    if !strangers.is_empty() {
        return Err(choice(
            format!(
                "{}: no class of the model is called {}; it has {}",
                source.origin(),
                listed(&strangers),
                listed(&card.classes)
            ),
            "call the folders of images like the model's classes, or choose another model",
        ));
    }
    Ok(labels.iter().filter_map(|label| found[usize::from(*label)]).collect())
}

/// The same where it helps: nothing for images whose label is not known or not one of the model's.
pub fn known_labels(card: &Card, source: &Source) -> Vec<Option<u16>> {
    let Ok(labels) = source.labels() else { return vec![None; source.len()] };
    let found = match source.class_names() {
        Some(names) => matched(card, names).0,
        None => (0..card.classes.len()).map(|class| Some(class as u16)).collect(),
    };
    labels.iter().map(|label| found.get(usize::from(*label)).copied().flatten()).collect()
}

fn numbered(card: &Card, origin: &str, labels: &[u16]) -> Result<Vec<u16>, ModelError> {
    let classes = card.classes.len();
    match labels.iter().position(|label| usize::from(*label) >= classes) {
        None => Ok(labels.to_vec()),
        Some(i) => Err(choice(
            format!(
                "{origin}: the label {} of image {i} is no class of the model, which has {classes}",
                labels[i]
            ),
            &format!("number the classes from 0 to {} as the model does", classes - 1),
        )),
    }
}

/// The model's class for every name, and the names that it does not know.
fn matched(card: &Card, names: &[String]) -> (Vec<Option<u16>>, Vec<String>) {
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
    let found: Vec<Option<u16>> =
        names.iter().map(|name| find(name).map(|class| class as u16)).collect();
    let strangers = names.iter().zip(&found).filter(|(_, found)| found.is_none());
    let strangers = strangers.map(|(name, _)| name.clone()).collect();
    (found, strangers)
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
