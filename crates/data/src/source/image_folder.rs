//! A folder of image files, whose subfolders are classes.

use super::image_file::{EXTENSIONS, Files, is_named_so};
use super::{Names, Problem, Source, SourceOptions, refusal};
use crate::share::file_error;
use crate::{DataError, Split};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Deeper folders are not looked into: a chain of links may have no end.
const DEEPEST: usize = 32;

/// Opens a folder: all images in it and below, by name. A folder of `train` and `test` (or `val`)
/// stands for the one that is wanted.
pub(crate) fn open(path: &Path, options: &SourceOptions) -> Result<Source, DataError> {
    let root = part(path, options.split)?;
    let mut found = Found::default();
    walk(&root, 0, &mut found)?;
    if found.images.is_empty() {
        return Err(nothing(&root, &found));
    }
    let labels = labels(&root, &found.images);
    let paths = Arc::new(found.images);
    let (labels, class_names) = match labels {
        Ok((labels, names)) => (Ok(labels), Some(names)),
        Err(why) => (Err(why), None),
    };
    Ok(Source {
        origin: root.display().to_string(),
        format: "image folder",
        len: paths.len(),
        shape: None,
        labels,
        class_names,
        names: Names::Paths(paths.clone()),
        content: Box::new(Files { paths, skip_bad: options.skip_bad }),
    })
}

/// The words by which folders and arrays name a part.
pub(crate) fn words(split: Split) -> &'static [&'static str] {
    match split {
        Split::Train => &["train"],
        Split::Validation => &["val", "validation", "valid"],
        Split::Test => &["test"],
        Split::All => &[],
    }
}

/// `DIR/test` of a folder that holds nothing but `train`, `val` and `test`, else the folder itself.
fn part(path: &Path, split: Split) -> Result<PathBuf, DataError> {
    let known = [Split::Train, Split::Validation, Split::Test].map(words).concat();
    let mut folders = Vec::new();
    for entry in entries(path)? {
        if entry.is_dir() {
            folders.push(entry.file_name().unwrap_or_default().to_string_lossy().to_lowercase());
        }
    }
    let all_known = folders.iter().all(|name| known.contains(&name.as_str()));
    if folders.len() < 2 || !all_known || split == Split::All {
        return Ok(path.into());
    }
    let wanted = entries(path)?.into_iter().find(|entry| {
        let name = entry.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        entry.is_dir() && words(split).contains(&name.as_str())
    });
    wanted.ok_or_else(|| {
        refusal(
            path.display(),
            format!("it has the folders {}, and not {}", folders.join(", "), words(split)[0]),
            "choose one of them with --split, or name its folder",
        )
    })
}

#[derive(Default)]
struct Found {
    images: Vec<PathBuf>,
    /// Some file that is not an image.
    other: Option<PathBuf>,
    /// Folders that were seen, as the system knows them: a link may lead back.
    seen: HashSet<PathBuf>,
}

/// Every image below a folder, in the order of names; what begins with a dot is left out.
fn walk(folder: &Path, depth: usize, found: &mut Found) -> Result<(), DataError> {
    let real = folder.canonicalize().map_err(|source| file_error("read", folder, source))?;
    if depth > DEEPEST || !found.seen.insert(real) {
        return Ok(());
    }
    for path in entries(folder)? {
        if path.is_dir() {
            walk(&path, depth + 1, found)?;
        } else if is_named_so(&path) {
            found.images.push(path);
        } else {
            found.other.get_or_insert(path);
        }
    }
    Ok(())
}

/// What a folder holds, in the order of names, without what is hidden.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let fail = |source| file_error("read", folder, source);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

fn nothing(root: &Path, found: &Found) -> DataError {
    let kinds = EXTENSIONS.join(", ");
    match &found.other {
        None => refusal(root.display(), "the folder is empty".into(), "name a folder of images"),
        Some(other) => refusal(
            root.display(),
            format!("it holds no image ({kinds}), but other files, such as {}", other.display()),
            "name the files themselves if they are IDX, NumPy or safetensors files",
        ),
    }
}

type Classes = (Vec<u16>, Vec<String>);

/// The class of each image is the folder of the first level in which it lies.
fn labels(root: &Path, images: &[PathBuf]) -> Result<Classes, Problem> {
    let mut names: Vec<String> = Vec::new();
    let mut labels = Vec::with_capacity(images.len());
    for image in images {
        let mut parts = image.strip_prefix(root).unwrap_or(image).components();
        let (Some(class), Some(_)) = (parts.next(), parts.next()) else {
            return Err((
                format!("{} is not in a folder that names its class", image.display()),
                "put every image into a folder that is named after its class: CLASS/IMAGE.png"
                    .to_owned(),
            ));
        };
        let class = class.as_os_str().to_string_lossy();
        // Images come folder by folder.
        if names.last().is_none_or(|last| *last != class) {
            names.push(class.into_owned());
        }
        let Ok(label) = u16::try_from(names.len() - 1) else {
            return Err((
                format!("it has more than {} folders of classes", u16::MAX),
                "name a folder with fewer classes".to_owned(),
            ));
        };
        labels.push(label);
    }
    Ok((labels, names))
}
