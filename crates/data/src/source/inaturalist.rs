//! iNaturalist: a JSON file that says what is on each picture, and a tree of pictures.

use super::format::{Format, Parts};
use super::image_file::Files;
use super::json::{self, Field, Objects};
use super::sight::Sight;
use super::{Names, Source, SourceOptions, refusal};
use crate::{DataError, Owners};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

pub(crate) const FORMAT: Format = Format {
    name: "iNaturalist",
    summary: "train2017.json and val2017.json beside the pictures that they name: images, annotations, categories",
    is_it: |sight| listing(sight, "train").is_some(),
    open: |sight, options| {
        let Some(train) = listing(sight, "train") else { return Err(sight.unknown()) };
        let val = train.replacen("train", "val", 1);
        let test = sight.holds(&val).then(|| open(&sight.path, &val, options)).transpose()?;
        Ok(Parts { train: open(&sight.path, train, options)?, test })
    },
};

/// The file of a part: `train2017.json`, or of another year. A file of no year must look like one.
fn listing<'s>(sight: &'s Sight, part: &str) -> Option<&'s str> {
    let keys = ["info", "images", "annotations", "categories", "licenses"];
    let looks =
        |name: &str| Sight::of(&sight.path.join(name)).is_ok_and(|file| file.mentions(&keys));
    let is_it = |name: &&String| {
        let year = name.strip_prefix(part).and_then(|rest| rest.strip_suffix(".json"));
        year.is_some_and(|year| year.bytes().all(|byte| byte.is_ascii_digit()))
            && (year != Some("") || looks(name))
    };
    sight.entries.iter().find(is_it).map(String::as_str)
}

/// What a file lists, in its order.
#[derive(Default)]
struct Listing {
    /// Number, path and, if it is asked for, owner.
    images: Vec<(i64, String, Option<String>)>,
    /// Picture, category and, if it is asked for, owner.
    annotations: Vec<(i64, i64, Option<String>)>,
    /// Number, name and the group of names it is from.
    categories: BTreeMap<i64, (String, String)>,
}

fn open(root: &Path, file: &str, options: &SourceOptions) -> Result<Source, DataError> {
    let path = root.join(file);
    let listing = json::read(&path, Seed { client: options.client.as_deref() })?;
    let fail = |found: String, remedy: &str| refusal(path.display(), found, remedy);
    let again = "take another copy of the file";
    if listing.images.is_empty() || listing.categories.is_empty() {
        let found = format!(
            "it lists {} pictures and {} categories",
            listing.images.len(),
            listing.categories.len()
        );
        return Err(fail(found, "give images, annotations and categories, as iNaturalist does"));
    }
    if listing.categories.len() > usize::from(u16::MAX) + 1 {
        let found = format!("it has {} categories", listing.categories.len());
        return Err(fail(found, &format!("give at most {}", usize::from(u16::MAX) + 1)));
    }
    let class_names = class_names(&listing.categories)
        .ok_or_else(|| fail("two of its categories have one name".into(), "give each its own"))?;
    let classes: HashMap<i64, u16> = listing.categories.keys().copied().zip(0..).collect();
    let mut annotated: HashMap<i64, (u16, Option<&str>)> = HashMap::new();
    for (nth, (image, category, owner)) in listing.annotations.iter().enumerate() {
        let Some(&class) = classes.get(category) else {
            let found =
                format!("annotations[{nth}] has the category {category}, which is not listed");
            return Err(fail(found, again));
        };
        let (known, _) = *annotated.entry(*image).or_insert((class, owner.as_deref()));
        if known != class {
            let found = format!("annotations[{nth}] gives the picture {image} a second category");
            return Err(fail(found, "keep one annotation for each picture"));
        }
    }
    let (mut labels, mut paths, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    let mut owners = options.client.as_ref().map(|_| json::People::default());
    for (nth, (id, name, owner)) in listing.images.iter().enumerate() {
        let Some(&(class, annotator)) = annotated.get(id) else {
            let found = format!("images[{nth}] ({name:?}) has no annotation");
            return Err(fail(found, "leave it out, or say what is on it"));
        };
        if !is_below(name) {
            let found =
                format!("images[{nth}] is {name:?}, which is not below the folder of the file");
            return Err(fail(found, "name pictures by paths below the folder, without .."));
        }
        let picture = root.join(name);
        if !picture.is_file() {
            missing.push(name);
        }
        if let (Some(owners), Some(key)) = (&mut owners, &options.client) {
            let Some(owner) = owner.as_deref().or(annotator) else {
                let found = format!("neither images[{nth}] nor its annotation has {key:?}");
                return Err(fail(
                    found,
                    "name the field that says whose a picture is in data.client, or remove data.client",
                ));
            };
            owners.add(owner);
        }
        labels.push(class);
        paths.push(picture);
    }
    if let (Some(first), false) = (missing.first(), options.skip_bad) {
        let found = format!(
            "{} of its {} pictures are not there, such as {first}",
            missing.len(),
            paths.len()
        );
        return Err(fail(
            found,
            "unpack the pictures into the folder of the file, so that their paths are as it says",
        ));
    }
    let owners = owners.map(json::People::into_owners);
    Ok(source(&path, paths, labels, class_names, owners, options))
}

fn source(
    path: &Path,
    paths: Vec<PathBuf>,
    labels: Vec<u16>,
    class_names: Vec<String>,
    owners: Option<Owners>,
    options: &SourceOptions,
) -> Source {
    let paths = Arc::new(paths);
    let names = Names::Paths(paths.clone());
    let files = Files { paths, skip_bad: options.skip_bad };
    let origin = path.display().to_string();
    let source = Source::new(origin, "iNaturalist", labels.len(), Ok(labels), files);
    Source { class_names: Some(class_names), owners, names, ..source }
}

/// The names of the categories by their numbers; with the groups that they are from, if a name occurs twice.
fn class_names(categories: &BTreeMap<i64, (String, String)>) -> Option<Vec<String>> {
    let plain: Vec<String> = categories.values().map(|(name, _)| name.clone()).collect();
    let differ = |names: &[String]| names.iter().collect::<HashSet<_>>().len() == names.len();
    if differ(&plain) {
        return Some(plain);
    }
    let full = categories.values().map(|(name, group)| format!("{group}/{name}")).collect();
    Some(full).filter(|full: &Vec<String>| differ(full))
}

fn is_below(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    !name.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Reads a [`Listing`].
struct Seed<'k> {
    client: Option<&'k str>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Listing;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Listing, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Listing;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("images, annotations and categories")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Listing, M::Error> {
        let mut listing = Listing::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "images" => {
                    let keys = ["id", "file_name", self.client.unwrap_or_default()];
                    map.next_value_seed(Objects::new(keys, |fields: [Option<Field>; 3]| {
                        let [id, name, owner] = fields;
                        let (Some(Field::Whole(id)), Some(Field::Text(name))) = (id, name) else {
                            return Err("a picture without a number (id) or a path (file_name)");
                        };
                        listing.images.push((id, name, owner.map(Field::into_text)));
                        Ok(())
                    }))?;
                }
                "annotations" => {
                    let keys = ["image_id", "category_id", self.client.unwrap_or_default()];
                    map.next_value_seed(Objects::new(keys, |fields: [Option<Field>; 3]| {
                        let [image, category, owner] = fields;
                        let (Some(Field::Whole(image)), Some(Field::Whole(category))) =
                            (image, category)
                        else {
                            return Err("an annotation without image_id or category_id");
                        };
                        listing.annotations.push((image, category, owner.map(Field::into_text)));
                        Ok(())
                    }))?;
                }
                "categories" => {
                    let keys = ["id", "name", "supercategory"];
                    map.next_value_seed(Objects::new(keys, |fields: [Option<Field>; 3]| {
                        let [id, name, group] = fields;
                        let (Some(Field::Whole(id)), Some(name)) = (id, name) else {
                            return Err("a category without a number (id) or a name");
                        };
                        let group = group.map_or(String::new(), Field::into_text);
                        match listing.categories.insert(id, (name.into_text(), group)) {
                            None => Ok(()),
                            Some(_) => Err("two categories with one number"),
                        }
                    }))?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(listing)
    }
}
