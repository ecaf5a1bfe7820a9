//! Reading a share without trusting it.

use super::{PARTS, Portion};
use formant_numerics::Shape;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

/// What was found, and what to do about it.
pub(crate) type Problem = (String, String);

/// The shape of an image, and the samples of train, validation and test.
pub(crate) fn read(bytes: &[u8]) -> Result<(Shape, [Portion; 3]), Problem> {
    let tensors = SafeTensors::deserialize(bytes).map_err(|error| {
        let found =
            format!("it is not a complete safetensors file of {} bytes ({error})", bytes.len());
        (found, "write the file again, for example with safetensors.numpy.save_file".to_owned())
    })?;
    check_names(&tensors)?;
    let mut shape = None;
    let mut parts = [const { None }; 3];
    for (part, name) in parts.iter_mut().zip(PARTS) {
        *part = samples(&tensors, name, &mut shape)?;
    }
    let [train, validation, test] = parts;
    match (shape, train) {
        (Some(shape), Some(train)) => {
            Ok((shape, [train, validation.unwrap_or_default(), test.unwrap_or_default()]))
        }
        _ => Err(missing(&tensors, "train.images")),
    }
}

/// A tensor that is not read has a misspelt name.
fn check_names(tensors: &SafeTensors<'_>) -> Result<(), Problem> {
    let known: Vec<String> = PARTS
        .iter()
        .flat_map(|part| ["images", "labels"].map(|of| format!("{part}.{of}")))
        .collect();
    let mut names = tensors.names();
    names.sort_unstable();
    match names.iter().find(|name| !known.iter().any(|known| known == *name)) {
        None => Ok(()),
        Some(name) => Err((
            format!("the tensor {name:?} is not part of a share"),
            format!("rename it or leave it out; the tensors of a share are {}", known.join(", ")),
        )),
    }
}

fn missing(tensors: &SafeTensors<'_>, name: &str) -> Problem {
    let mut names = tensors.names();
    names.sort_unstable();
    let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    (format!("the tensor {name} is missing; there is {there}"), format!("add {name} to the file"))
}

/// One part, if it is there. All parts must have the same shape.
fn samples(
    tensors: &SafeTensors<'_>,
    part: &str,
    shape: &mut Option<Shape>,
) -> Result<Option<Portion>, Problem> {
    let (images_name, labels_name) = (format!("{part}.images"), format!("{part}.labels"));
    let (images, labels) = match (tensors.tensor(&images_name), tensors.tensor(&labels_name)) {
        (Ok(images), Ok(labels)) => (images, labels),
        (Ok(_), Err(_)) => return Err(missing(tensors, &labels_name)),
        (Err(_), Ok(_)) => return Err(missing(tensors, &images_name)),
        (Err(_), Err(_)) => return Ok(None),
    };
    let (count, found) = extents(&images_name, &images)?;
    match shape {
        Some(shape) if *shape != found => {
            return Err((
                format!("{images_name} holds images of {found}, but train.images of {shape}"),
                "bring all images into one shape".to_owned(),
            ));
        }
        _ => *shape = Some(found),
    }
    let labels = classes(&labels_name, &labels)?;
    if labels.len() != count {
        return Err((
            format!("{labels_name} has {} entries, but {images_name} {count} images", labels.len()),
            "give every image one label".to_owned(),
        ));
    }
    Ok(Some(Portion { pixels: images.data().to_vec(), labels }))
}

/// The number of images and the shape of one.
fn extents(name: &str, images: &TensorView<'_>) -> Result<(usize, Shape), Problem> {
    if images.dtype() != Dtype::U8 {
        return Err((
            format!("{name} is of type {}, expected U8", images.dtype()),
            "store the pixels as bytes from 0 to 255, in Python images.astype(\"uint8\"); Formant \
             normalises them"
                .to_owned(),
        ));
    }
    match *images.shape() {
        [count, channels, height, width] => Ok((count, Shape::new(channels, height, width))),
        ref other => Err((
            format!("{name} has the extents {other:?}, expected samples, channels, height, width"),
            "bring it into that form, in Python images.reshape(n, channels, height, width); grey \
             images have 1 channel"
                .to_owned(),
        )),
    }
}

fn classes(name: &str, labels: &TensorView<'_>) -> Result<Vec<u16>, Problem> {
    if labels.shape().len() != 1 {
        return Err((
            format!("{name} has the extents {:?}, expected the number of samples", labels.shape()),
            "give one whole number per sample, in Python labels.reshape(-1)".to_owned(),
        ));
    }
    let data = labels.data();
    match labels.dtype() {
        Dtype::U8 => whole(name, data, |[byte]: [u8; 1]| i64::from(byte)),
        Dtype::U16 => whole(name, data, |bytes| i64::from(u16::from_le_bytes(bytes))),
        Dtype::I32 => whole(name, data, |bytes| i64::from(i32::from_le_bytes(bytes))),
        Dtype::I64 => whole(name, data, i64::from_le_bytes),
        other => Err((
            format!("{name} is of type {other}, expected I64, I32, U16 or U8"),
            "store the labels as whole numbers, in Python labels.astype(\"int64\")".to_owned(),
        )),
    }
}

/// Numbers of any width as classes.
fn whole<const WIDTH: usize>(
    name: &str,
    data: &[u8],
    number: impl Fn([u8; WIDTH]) -> i64,
) -> Result<Vec<u16>, Problem> {
    let (numbers, _) = data.as_chunks::<WIDTH>();
    let mut classes = Vec::with_capacity(numbers.len());
    for (i, bytes) in numbers.iter().enumerate() {
        let label = number(*bytes);
        let class = u16::try_from(label).map_err(|_| {
            let remedy = format!("number the classes from 0 to at most {}", u16::MAX);
            (format!("{name}[{i}] = {label} is not a class"), remedy)
        })?;
        classes.push(class);
    }
    Ok(classes)
}
