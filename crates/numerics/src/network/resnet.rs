//! Residual networks (He et al. 2016), in the CIFAR and in the ImageNet form.

use super::builder::{Builder, ConvSpec};
use super::{Norm, Stem};
use crate::NumericsError;

/// The two kinds of block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    /// Two 3x3 convolutions.
    Basic,
    /// 1x1, 3x3 (which takes the stride), 1x1 to four times the width.
    Bottleneck,
}

/// The four stages of a residual network.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stages {
    pub(super) block: Block,
    /// Blocks of each stage.
    pub(super) depths: [usize; 4],
}

/// Stem, four stages, global average. `width` is the first stage's, 64 in the paper.
pub(super) fn body(
    net: &mut Builder,
    Stages { block, depths }: Stages,
    norm: Norm,
    stem: Stem,
    width: usize,
) -> Result<(), NumericsError> {
    match stem {
        Stem::Cifar => {
            conv(net, "conv1", width, 3, 1)?;
            net.norm("bn1", norm, true);
        }
        Stem::Imagenet => {
            conv(net, "conv1", width, 7, 2)?;
            net.norm("bn1", norm, true);
            net.max_pool(3, 2, 1, false)?;
        }
    }
    for (stage, depth) in depths.into_iter().enumerate() {
        for index in 0..depth {
            let stride = if stage > 0 && index == 0 { 2 } else { 1 };
            residual(
                net,
                &format!("layer{}.{index}", stage + 1),
                block,
                norm,
                width.saturating_mul(1 << stage),
                stride,
            )?;
        }
    }
    net.global_average_pool();
    Ok(())
}

/// One block with its shortcut, which is a 1x1 convolution where the shapes differ.
pub(super) fn residual(
    net: &mut Builder,
    name: &str,
    block: Block,
    norm: Norm,
    width: usize,
    stride: usize,
) -> Result<(), NumericsError> {
    let start = net.position();
    let inputs = net.channels();
    let outputs = match block {
        Block::Basic => {
            conv(net, &format!("{name}.conv1"), width, 3, stride)?;
            net.norm(&format!("{name}.bn1"), norm, true);
            conv(net, &format!("{name}.conv2"), width, 3, 1)?;
            net.norm(&format!("{name}.bn2"), norm, false);
            width
        }
        Block::Bottleneck => {
            conv(net, &format!("{name}.conv1"), width, 1, 1)?;
            net.norm(&format!("{name}.bn1"), norm, true);
            conv(net, &format!("{name}.conv2"), width, 3, stride)?;
            net.norm(&format!("{name}.bn2"), norm, true);
            let outputs = width.saturating_mul(4);
            conv(net, &format!("{name}.conv3"), outputs, 1, 1)?;
            net.norm(&format!("{name}.bn3"), norm, false);
            outputs
        }
    };
    let main = net.position();
    let shortcut = if stride == 1 && inputs == outputs {
        start
    } else {
        net.rewind(start);
        conv(net, &format!("{name}.downsample.0"), outputs, 1, stride)?;
        net.norm(&format!("{name}.downsample.1"), norm, false);
        net.position()
    };
    net.rewind(main);
    net.add_relu(shortcut);
    Ok(())
}

/// A convolution that keeps its size apart from the stride, without bias: the norm has one.
fn conv(
    net: &mut Builder,
    name: &str,
    channels: usize,
    kernel: usize,
    stride: usize,
) -> Result<(), NumericsError> {
    net.conv(name, ConvSpec { channels, kernel, stride, padding: kernel / 2, bias: false })
}
