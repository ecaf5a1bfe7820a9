//! The Python version: pickles of an array of pixels and a list of labels.

use super::PIXELS;
use crate::folder::FileContent;
use crate::pickle::{Fault, Pickle};
use crate::{DataError, Portion};

/// Appends the samples of a file.
pub(crate) fn append(
    file: &FileContent,
    labels_key: &str,
    classes: usize,
    samples: &mut Portion,
) -> Result<(), DataError> {
    let pickle = Pickle::parse(&file.bytes).map_err(|fault| broken(file, &fault))?;
    let fail = |fault: Fault| broken(file, &fault);
    let entry = |key: &str| {
        let found = pickle.entry(key).map_err(fail)?;
        found.ok_or_else(|| {
            file.malformed(
                format!("a pickle without {key:?}; it has {}", pickle.keys()),
                "a batch of CIFAR with data and labels",
            )
        })
    };
    let (data, labels) = (entry("data")?, entry(labels_key)?);
    let pixels = pickle.array(data, "data").map_err(fail)?;
    let labels = pickle.wholes(labels, labels_key).map_err(fail)?;
    let count = match *pixels.extents.as_slice() {
        [count, PIXELS] if count > 0 && pixels.kind == (b'u', 1) => count,
        _ => {
            return Err(file.malformed(
                format!(
                    "data with the extents {:?} of {}-byte numbers",
                    pixels.extents, pixels.kind.1
                ),
                format!("(n, {PIXELS}) bytes (uint8)"),
            ));
        }
    };
    if labels.len() != count {
        let found = format!("{} {labels_key} for {count} pictures", labels.len());
        return Err(file.malformed(found, "one for each picture"));
    }
    for (i, &label) in labels.iter().enumerate() {
        match u16::try_from(label) {
            Ok(class) if usize::from(class) < classes => samples.labels.push(class),
            _ => {
                return Err(file.malformed(
                    format!("the label {label} in {labels_key}[{i}]"),
                    format!("labels from 0 to {}", classes - 1),
                ));
            }
        }
    }
    samples.pixels.extend_from_slice(&pixels.bytes);
    Ok(())
}

/// The names of the classes.
pub(crate) fn names(file: &FileContent, key: &str) -> Result<Vec<String>, DataError> {
    let pickle = Pickle::parse(&file.bytes).map_err(|fault| broken(file, &fault))?;
    let fail = |fault: Fault| broken(file, &fault);
    let Some(names) = pickle.entry(key).map_err(fail)? else {
        let found = format!("a pickle without {key:?}; it has {}", pickle.keys());
        return Err(file.malformed(found, "the names of the classes"));
    };
    let names = pickle.texts(names, key).map_err(fail)?;
    if names.is_empty() || names.len() > usize::from(u16::MAX) + 1 {
        return Err(
            file.malformed(format!("{} names of classes", names.len()), "one for each class")
        );
    }
    Ok(names)
}

fn broken(file: &FileContent, fault: &Fault) -> DataError {
    file.malformed(
        format!("{} at byte {}", fault.found, fault.byte),
        "a pickle of protocol 0 to 5 that holds plain data and NumPy arrays",
    )
}
