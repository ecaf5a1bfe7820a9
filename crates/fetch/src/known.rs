//! The datasets that can be fetched.

use crate::FetchError;
use std::path::{Path, PathBuf};

/// A published dataset.
#[derive(Debug)]
pub struct Known {
    /// The name by which it is asked for.
    pub name: &'static str,
    /// Its files.
    pub files: &'static [Remote],
}

/// A file that is published.
#[derive(Debug)]
pub struct Remote {
    /// Its name, at the end of every address.
    pub file: &'static str,
    /// The folder in which it is kept, below that of the datasets.
    pub folder: &'static str,
    /// Its length, where that is known.
    pub bytes: Option<u64>,
    /// Its published checksum.
    pub md5: &'static str,
    /// Addresses of folders that have it, the best first.
    pub mirrors: &'static [&'static str],
    /// What is in it.
    pub packing: Packing,
}

/// What is to be done with a file that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Nothing: it is read as it is.
    Plain,
    /// These of its members are taken out of the compressed archive.
    Members(&'static [&'static str]),
    /// Everything is taken out of the compressed archive.
    Everything,
    /// Everything is taken out of the zip archive.
    Zip,
}

impl Remote {
    /// Where it is kept.
    pub fn place(&self, dir: &Path) -> PathBuf {
        dir.join(self.folder).join(self.file)
    }

    /// All addresses at which it may be.
    pub fn addresses(&self, mirror: Option<&str>) -> Vec<String> {
        let at = |base: &str| format!("{}/{}", base.trim_end_matches('/'), self.file);
        match mirror {
            Some(base) => vec![at(base)],
            None => self.mirrors.iter().map(|base| at(base)).collect(),
        }
    }
}

impl Known {
    /// The dataset of a name.
    pub fn named(name: &str) -> Result<&'static Self, FetchError> {
        KNOWN.iter().find(|known| known.name == name).ok_or_else(|| FetchError::Unknown {
            name: name.into(),
            known: KNOWN.iter().map(|known| known.name).collect::<Vec<_>>().join(", "),
        })
    }
}

const MNIST: &[&str] = &[
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
];
const FASHION: &[&str] = &[
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
];
const TORONTO: &[&str] = &["https://www.cs.toronto.edu/~kriz", "https://cave.cs.toronto.edu/kriz"];
const INAT: &[&str] = &["https://ml-inat-competition-datasets.s3.amazonaws.com/2017"];

const fn idx(
    folder: &'static str,
    mirrors: &'static [&'static str],
    file: &'static str,
    bytes: u64,
    md5: &'static str,
) -> Remote {
    Remote { file, folder, bytes: Some(bytes), md5, mirrors, packing: Packing::Plain }
}

/// Every dataset that can be fetched, with the checksums that its authors or torchvision publish.
pub const KNOWN: &[Known] = &[
    Known {
        name: "mnist",
        files: &[
            idx(
                "MNIST/raw",
                MNIST,
                "train-images-idx3-ubyte.gz",
                9_912_422,
                "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            ),
            idx(
                "MNIST/raw",
                MNIST,
                "train-labels-idx1-ubyte.gz",
                28_881,
                "d53e105ee54ea40749a09fcbcd1e9432",
            ),
            idx(
                "MNIST/raw",
                MNIST,
                "t10k-images-idx3-ubyte.gz",
                1_648_877,
                "9fb629c4189551a2d022fa330f9573f3",
            ),
            idx(
                "MNIST/raw",
                MNIST,
                "t10k-labels-idx1-ubyte.gz",
                4_542,
                "ec29112dd5afa0611ce80d1b7f02629c",
            ),
        ],
    },
    Known {
        name: "fashion-mnist",
        files: &[
            idx(
                "FashionMNIST/raw",
                FASHION,
                "train-images-idx3-ubyte.gz",
                26_421_880,
                "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            ),
            idx(
                "FashionMNIST/raw",
                FASHION,
                "train-labels-idx1-ubyte.gz",
                29_515,
                "25c81989df183df01b3e8a0aad5dffbe",
            ),
            idx(
                "FashionMNIST/raw",
                FASHION,
                "t10k-images-idx3-ubyte.gz",
                4_422_102,
                "bef4ecab320f06d8554ea6380940ec79",
            ),
            idx(
                "FashionMNIST/raw",
                FASHION,
                "t10k-labels-idx1-ubyte.gz",
                5_148,
                "bb300cfdad3c16e7a12a480ee83cd310",
            ),
        ],
    },
    Known {
        name: "cifar10",
        files: &[Remote {
            file: "cifar-10-binary.tar.gz",
            folder: "",
            bytes: Some(170_052_171),
            md5: "c32a1d4ab5d03f1284b67883e8d87530",
            mirrors: TORONTO,
            packing: Packing::Members(&[
                "cifar-10-batches-bin/data_batch_1.bin",
                "cifar-10-batches-bin/data_batch_2.bin",
                "cifar-10-batches-bin/data_batch_3.bin",
                "cifar-10-batches-bin/data_batch_4.bin",
                "cifar-10-batches-bin/data_batch_5.bin",
                "cifar-10-batches-bin/test_batch.bin",
            ]),
        }],
    },
    Known {
        name: "cifar100",
        files: &[Remote {
            file: "cifar-100-binary.tar.gz",
            folder: "",
            bytes: Some(168_513_733),
            md5: "03b5dce01913d631647c71ecec9e9cb8",
            mirrors: TORONTO,
            packing: Packing::Members(&["cifar-100-binary/train.bin", "cifar-100-binary/test.bin"]),
        }],
    },
    Known {
        name: "inat2017",
        files: &[
            Remote {
                file: "train_val2017.zip",
                folder: "inat2017",
                bytes: None,
                md5: "444c835f6459867ad69fcb36478786e7",
                mirrors: INAT,
                packing: Packing::Zip,
            },
            // 186 GB.
            Remote {
                file: "train_val_images.tar.gz",
                folder: "inat2017",
                bytes: None,
                md5: "7c784ea5e424efaec655bd392f87301f",
                mirrors: INAT,
                packing: Packing::Everything,
            },
        ],
    },
];
