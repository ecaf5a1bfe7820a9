//! The networks by name.

use super::Graph;
use super::builder::{Builder, ConvSpec};
use super::resnet::{self, Block, Stages};
use super::tape::Tape;
use crate::{NumericsError, Shape};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Which normalisation a residual network uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Norm {
    /// Batch normalisation, with running statistics.
    Batch,
    /// Group normalisation, per sample.
    Group,
}

/// How a residual network begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stem {
    /// One 3x3 convolution: for 32x32 images.
    Cifar,
    /// 7x7 with stride 2 and a maximum pooling: for large images.
    Imagenet,
}

impl Norm {
    /// Their names in a file.
    pub const WORDS: &'static [&'static str] = &["batch", "group"];
}

impl Stem {
    /// Their names in a file.
    pub const WORDS: &'static [&'static str] = &["cifar", "imagenet"];

    /// Beyond 64 pixels a 3x3 stem at full resolution is not usual.
    fn by_size(input: Shape) -> Self {
        if input.height.max(input.width) <= 64 { Self::Cifar } else { Self::Imagenet }
    }
}

/// How stride-1 convolutions of 3x3 and 5x5 over whole groups of sixteen channels are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Convolution {
    /// By Winograd's minimal filtering: a third of the multiplications, about the same rounding.
    #[default]
    Fast,
    /// As the definition has it, like every other convolution.
    Direct,
}

impl Convolution {
    /// Their names in a file.
    pub const WORDS: &'static [&'static str] = &["fast", "direct"];
}

/// What a family of networks lets a user choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Nothing.
    Fixed,
    /// Hidden widths.
    Mlp,
    /// How convolutions are computed.
    Convolutional,
    /// Norm, stem, width, and how convolutions are computed.
    ResNet,
}

impl Family {
    /// Whether an option means something for the family.
    pub fn takes(self, option: &str) -> bool {
        match option {
            "norm" | "stem" | "width" => self == Self::ResNet,
            "convolution" => matches!(self, Self::Convolutional | Self::ResNet),
            "hidden" => self == Self::Mlp,
            _ => false,
        }
    }
}

/// Builds a network for the shape of a sample and a number of classes.
type Build = fn(&NetworkSpec, Shape, usize) -> Result<Tape, NumericsError>;

/// One line of the catalogue.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The name in a config.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// Which options it takes.
    pub family: Family,
    build: Build,
}

/// Every network that exists.
pub const CATALOGUE: &[Entry] = &[
    Entry {
        name: "logistic",
        summary: "softmax regression on the pixels",
        family: Family::Fixed,
        build: |_, input, classes| {
            let mut net = Builder::new(input, classes);
            net.flatten();
            Ok(net.head("fc"))
        },
    },
    Entry {
        name: "mlp",
        summary: "fully connected layers with ReLU (hidden = [200] by default)",
        family: Family::Mlp,
        build: |spec, input, classes| {
            let mut net = Builder::new(input, classes);
            net.flatten();
            for (i, width) in spec.widths().iter().enumerate() {
                net.linear(&format!("fc{}", i + 1), *width, true);
            }
            Ok(net.head("head"))
        },
    },
    Entry {
        name: "lenet5",
        summary: "LeNet-5 with ReLU and maximum pooling (44,426 parameters on 28x28x1)",
        family: Family::Convolutional,
        build: |spec, input, classes| convolutional(spec, input, classes, [6, 16], &[120, 84]),
    },
    Entry {
        name: "cnn",
        summary: "two 5x5 convolutions and a hidden layer of 512 (878,538 parameters on 32x32x3)",
        family: Family::Convolutional,
        build: |spec, input, classes| convolutional(spec, input, classes, [32, 64], &[512]),
    },
    Entry {
        name: "resnet18",
        summary: "residual network, basic blocks (11,173,962 parameters on 32x32x3)",
        family: Family::ResNet,
        build: |spec, input, classes| {
            residual(spec, input, classes, Stages { block: Block::Basic, depths: [2, 2, 2, 2] })
        },
    },
    Entry {
        name: "resnet34",
        summary: "residual network, basic blocks (21,282,122 parameters on 32x32x3)",
        family: Family::ResNet,
        build: |spec, input, classes| {
            residual(spec, input, classes, Stages { block: Block::Basic, depths: [3, 4, 6, 3] })
        },
    },
    Entry {
        name: "resnet50",
        summary: "residual network, bottleneck blocks (23,520,842 parameters on 32x32x3)",
        family: Family::ResNet,
        build: |spec, input, classes| {
            let stages = Stages { block: Block::Bottleneck, depths: [3, 4, 6, 3] };
            residual(spec, input, classes, stages)
        },
    },
];

/// Parameters of the largest network that is built: four terabytes. Smaller numbers can be multiplied
/// by a batch and by a layer's overhead without overflow.
const LARGEST: usize = 1_000_000_000_000;

/// A network by name with its options.
///
/// ```
/// use formant_numerics::{NetworkSpec, Shape};
/// let cnn = NetworkSpec::named("cnn").build(Shape::new(3, 32, 32), 10)?;
/// assert_eq!(cnn.layout().parameters(), 878_538);
/// # Ok::<(), formant_numerics::NumericsError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkSpec {
    /// A name of the [`CATALOGUE`].
    pub name: String,
    /// Residual networks: normalisation, batch by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub norm: Option<Norm>,
    /// Residual networks: stem, by default chosen by the size of the images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stem: Option<Stem>,
    /// Residual networks: channels of the first stage, 64 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<usize>,
    /// `mlp`: hidden widths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<Vec<usize>>,
    /// Convolutional and residual networks: fast by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub convolution: Option<Convolution>,
    /// [`MODULE`]: which one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
}

/// The name of networks that are not in the catalogue: modules that an [`Engines`](crate::Engines) brings along.
pub const MODULE: &str = "module";

impl NetworkSpec {
    /// A network with its default options.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.into(),
            norm: None,
            stem: None,
            width: None,
            hidden: None,
            convolution: None,
            module: None,
        }
    }

    /// The same with every option of its family set, so that the network stays the same even if
    /// the defaults change.
    #[must_use]
    pub fn complete(&self, input: Shape) -> Self {
        let mut spec = self.clone();
        let family = CATALOGUE.iter().find(|e| e.name == self.name).map(|e| e.family);
        match family {
            Some(Family::Mlp) => spec.hidden = Some(self.widths().to_vec()),
            Some(Family::ResNet) => {
                spec.norm = Some(self.norm.unwrap_or(Norm::Batch));
                spec.stem = Some(self.stem.unwrap_or(Stem::by_size(input)));
                spec.width = Some(self.width.unwrap_or(64));
            }
            Some(Family::Fixed | Family::Convolutional) | None => {}
        }
        if family.is_some_and(|family| family.takes("convolution")) {
            spec.convolution = Some(self.convolution.unwrap_or_default());
        }
        spec
    }

    /// Hidden widths of an `mlp`.
    fn widths(&self) -> &[usize] {
        self.hidden.as_deref().unwrap_or(&[200])
    }

    /// Builds it for images of a shape.
    pub fn build(&self, input: Shape, classes: usize) -> Result<Arc<Tape>, NumericsError> {
        Ok(Arc::new(self.tape(input, classes)?))
    }

    /// Its layers for images of a shape, to be read and not to be run.
    pub fn graph(&self, input: Shape, classes: usize) -> Result<Graph, NumericsError> {
        Ok(self.tape(input, classes)?.graph())
    }

    pub(super) fn tape(&self, input: Shape, classes: usize) -> Result<Tape, NumericsError> {
        if self.name == MODULE {
            let module = self.module.clone().unwrap_or_else(|| "not named".into());
            return Err(NumericsError::Foreign { module });
        }
        let entry = CATALOGUE
            .iter()
            .find(|e| e.name == self.name)
            .ok_or_else(|| NumericsError::UnknownNetwork { name: self.name.clone() })?;
        for (option, given) in [
            ("norm", self.norm.is_some()),
            ("stem", self.stem.is_some()),
            ("width", self.width.is_some()),
            ("hidden", self.hidden.is_some()),
            ("convolution", self.convolution.is_some()),
            ("module", self.module.is_some()),
        ] {
            if given && !entry.family.takes(option) {
                return Err(NumericsError::IdleOption { network: self.name.clone(), option });
            }
        }
        if self.width == Some(0) || self.hidden.as_ref().is_some_and(|h| h.contains(&0)) {
            return Err(NumericsError::EmptyLayer { network: self.name.clone() });
        }
        let convolves = matches!(entry.family, Family::Convolutional | Family::ResNet);
        if convolves && input.plane() == 1 {
            return Err(NumericsError::NotPictures { network: self.name.clone(), input });
        }
        let refuse =
            |parameters| Err(NumericsError::TooLarge { network: self.name.clone(), parameters });
        // Before sizes are multiplied as whole numbers, where a product may come out small again.
        let least = self.least(input, classes);
        if least > LARGEST as f64 {
            return refuse(least);
        }
        let network = (entry.build)(self, input, classes)?;
        match network.layout().parameters() {
            parameters if parameters > LARGEST => refuse(parameters as f64),
            _ => Ok(network),
        }
    }

    /// Parameters that the options alone ask for.
    fn least(&self, input: Shape, classes: usize) -> f64 {
        let values = [input.channels, input.height, input.width].map(|extent| extent as f64);
        let widths = self.hidden.iter().flatten().chain([&classes]);
        let (layers, _) =
            widths.fold((0.0, values.iter().product()), |(sum, inputs): (f64, f64), width| {
                let outputs = *width as f64;
                (outputs.mul_add(inputs, sum), outputs)
            });
        let channels = self.width.unwrap_or(0) as f64;
        if self.hidden.is_some() { layers } else { channels * channels }
    }
}

/// Two unpadded 5x5 convolutions, each with ReLU and 2x2 maximum pooling, then hidden layers.
fn convolutional(
    spec: &NetworkSpec,
    input: Shape,
    classes: usize,
    channels: [usize; 2],
    hidden: &[usize],
) -> Result<Tape, NumericsError> {
    let mut net = Builder::new(input, classes);
    net.convolution = spec.convolution.unwrap_or_default();
    for (i, channels) in channels.into_iter().enumerate() {
        let spec = ConvSpec { channels, kernel: 5, stride: 1, padding: 0, bias: true };
        net.conv(&format!("conv{}", i + 1), spec)?;
        net.max_pool(2, 2, 0, true)?;
    }
    net.flatten();
    for (i, width) in hidden.iter().enumerate() {
        net.linear(&format!("fc{}", i + 1), *width, true);
    }
    Ok(net.head(&format!("fc{}", hidden.len() + 1)))
}

fn residual(
    spec: &NetworkSpec,
    input: Shape,
    classes: usize,
    stages: Stages,
) -> Result<Tape, NumericsError> {
    let mut net = Builder::new(input, classes);
    net.convolution = spec.convolution.unwrap_or_default();
    resnet::body(
        &mut net,
        stages,
        spec.norm.unwrap_or(Norm::Batch),
        spec.stem.unwrap_or(Stem::by_size(input)),
        spec.width.unwrap_or(64),
    )?;
    Ok(net.head("fc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(name: &str, shape: Shape, classes: usize) -> usize {
        NetworkSpec::named(name).build(shape, classes).unwrap().layout().parameters()
    }

    #[test]
    fn rows_of_a_table_are_not_for_convolutions() {
        let row = Shape::new(30, 1, 1);
        for entry in CATALOGUE {
            match NetworkSpec::named(entry.name).build(row, 2) {
                Ok(_) => assert!(matches!(entry.name, "mlp" | "logistic"), "{}", entry.name),
                Err(error) => {
                    let said = error.to_string();
                    assert!(said.contains("30x1x1") && said.contains("mlp"), "{said}");
                }
            }
        }
    }

    #[test]
    fn sizes_are_the_published_ones() {
        let cifar = Shape::new(3, 32, 32);
        assert_eq!(parameters("cnn", cifar, 10), 878_538);
        assert_eq!(parameters("cnn", Shape::new(1, 28, 28), 10), 582_026);
        assert_eq!(parameters("lenet5", Shape::new(1, 28, 28), 10), 44_426);
        assert_eq!(parameters("logistic", Shape::new(1, 28, 28), 10), 7_850);
        assert_eq!(parameters("resnet18", cifar, 10), 11_173_962);
        assert_eq!(parameters("resnet34", cifar, 10), 21_282_122);
        assert_eq!(parameters("resnet50", cifar, 10), 23_520_842);
        // torchvision's own figures for 1,000 classes.
        let imagenet = Shape::new(3, 224, 224);
        assert_eq!(parameters("resnet18", imagenet, 1000), 11_689_512);
        assert_eq!(parameters("resnet34", imagenet, 1000), 21_797_672);
        assert_eq!(parameters("resnet50", imagenet, 1000), 25_557_032);
    }

    #[test]
    fn the_head_is_the_last_range() {
        use crate::Part;
        let net = NetworkSpec::named("cnn").build(Shape::new(3, 32, 32), 10).unwrap();
        let layout = net.layout();
        assert_eq!(layout.range(Part::Head).len(), 512 * 10 + 10);
        assert_eq!(layout.range(Part::Body).end, layout.range(Part::Head).start);
        assert_eq!(layout.range(Part::All), 0..878_538);
    }

    #[test]
    fn a_network_beyond_all_bounds_is_refused_by_its_size() {
        let mlp = |hidden: &[usize]| NetworkSpec {
            hidden: Some(hidden.to_vec()),
            ..NetworkSpec::named("mlp")
        };
        let resnet = |name, width| NetworkSpec { width: Some(width), ..NetworkSpec::named(name) };
        for spec in [
            mlp(&[9_000_000_000_000_000]),
            mlp(&[usize::MAX, usize::MAX]),
            mlp(&[1, 5_000_000_000_000, 1]),
            resnet("resnet18", 1_000_000),
            resnet("resnet50", usize::MAX),
            resnet("resnet34", usize::MAX / 8 + 2),
        ] {
            let error = spec.build(Shape::new(1, 28, 28), 10).err().unwrap().to_string();
            assert!(error.contains(&format!("network `{}` would have", spec.name)), "{error}");
            assert!(error.contains("parameters") && error.contains("network.hidden"), "{error}");
        }
        assert!(
            mlp(&[9_000_000_000_000_000])
                .build(Shape::new(1, 28, 28), 10)
                .err()
                .is_some_and(|error| error.to_string().contains("7.1e18 parameters"),)
        );
        // Large, but it can be counted: whether it fits is checked where the machine is known.
        let large = mlp(&[100_000, 100_000]).build(Shape::new(1, 28, 28), 10).unwrap();
        assert_eq!(large.layout().parameters(), 10_079_600_010);
        assert!(large.workspace_bytes(usize::MAX, true) > 1 << 62);
    }

    #[test]
    fn bad_requests_name_the_remedy() {
        let error =
            |spec: &NetworkSpec| spec.build(Shape::new(1, 8, 8), 10).err().unwrap().to_string();
        assert!(error(&NetworkSpec::named("cnn")).contains("8x8"));
        assert!(error(&NetworkSpec::named("vgg")).contains("vgg"));
        let mut spec = NetworkSpec::named("logistic");
        spec.norm = Some(Norm::Group);
        assert!(error(&spec).contains("norm"));
    }
}
