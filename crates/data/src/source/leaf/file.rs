//! One file of LEAF.

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use std::collections::HashMap;
use std::fmt::Formatter;

/// What a file holds.
#[derive(Default)]
pub(crate) struct Found {
    /// Everybody in the order of the file.
    pub(crate) all: Vec<User>,
    /// Who the file says is in it, and how many samples each has.
    pub(crate) listed: Option<Vec<String>>,
    counts: Option<Vec<usize>>,
}

impl Found {
    /// How many samples the file announces of each user.
    pub(crate) fn claimed(&self) -> HashMap<&str, usize> {
        let names = self.listed.iter().flatten().map(String::as_str);
        names.zip(self.counts.iter().flatten().copied()).collect()
    }
}

/// A user and the samples.
#[derive(Default)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) labels: Vec<u16>,
    /// Number of samples, and how long each is.
    pub(crate) samples: usize,
    pub(crate) length: Option<usize>,
    /// The samples, if they are kept.
    pub(crate) values: Vec<f32>,
}

/// Reads a file; the samples themselves only if they are kept.
#[derive(Clone, Copy)]
pub(crate) struct Users {
    pub(crate) keep: bool,
}

impl<'de> DeserializeSeed<'de> for Users {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Found, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Users {
    type Value = Found;

    fn expecting(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("users and user_data")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Found, M::Error> {
        let mut found = Found::default();
        let mut data = None;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "users" => found.listed = Some(map.next_value()?),
                "num_samples" => found.counts = Some(map.next_value()?),
                "user_data" => data = Some(map.next_value_seed(UserData(self))?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        found.all = data.ok_or_else(|| M::Error::missing_field("user_data"))?;
        Ok(found)
    }
}

/// Everybody's samples by name.
struct UserData(Users);

impl<'de> DeserializeSeed<'de> for UserData {
    type Value = Vec<User>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<User>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for UserData {
    type Value = Vec<User>;

    fn expecting(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("samples by user: {USER: {x, y}}")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Vec<User>, M::Error> {
        let mut all = Vec::new();
        while let Some(name) = map.next_key()? {
            let user = map.next_value_seed(OneUser(self.0))?;
            all.push(User { name, ..user });
        }
        Ok(all)
    }
}

/// Samples (x) and labels (y) of one user, whose name is not known yet.
struct OneUser(Users);

impl<'de> DeserializeSeed<'de> for OneUser {
    type Value = User;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<User, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OneUser {
    type Value = User;

    fn expecting(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("x and y of a user")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<User, M::Error> {
        let mut user = User::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "x" => {
                    (user.samples, user.length) = (0, None);
                    user.values.clear();
                    map.next_value_seed(Samples { keep: self.0.keep, user: &mut user })?;
                }
                "y" => user.labels = map.next_value::<Vec<Label>>()?.iter().map(|l| l.0).collect(),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(user)
    }
}

/// A list of samples, appended to a user.
struct Samples<'u> {
    keep: bool,
    user: &'u mut User,
}

impl<'de> DeserializeSeed<'de> for Samples<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Samples<'_> {
    type Value = ();

    fn expecting(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of samples, each a list of numbers")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<(), S::Error> {
        let Samples { keep, user } = self;
        while let Some(length) =
            list.next_element_seed(Sample { keep, values: &mut user.values })?
        {
            if length == 0 || user.length.is_some_and(|known| known != length) {
                let known = user.length.unwrap_or_default();
                let found = format!("a sample of {length} numbers after samples of {known}");
                return Err(S::Error::custom(found));
            }
            user.length = Some(length);
            user.samples += 1;
        }
        Ok(())
    }
}

/// The numbers of a sample; gives how many they are.
struct Sample<'u> {
    keep: bool,
    values: &'u mut Vec<f32>,
}

impl<'de> DeserializeSeed<'de> for Sample<'_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Sample<'_> {
    type Value = usize;

    fn expecting(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of numbers: texts and pictures in files of their own are not read")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<usize, S::Error> {
        let mut count = 0;
        while let Some(value) = list.next_element::<f64>()? {
            let value = value as f32;
            if !value.is_finite() {
                return Err(S::Error::custom("a number that is too large to be trained on"));
            }
            if self.keep {
                self.values.push(value);
            }
            count += 1;
        }
        Ok(count)
    }
}

/// A class, which may be written as 3 or 3.0.
struct Label(u16);

impl<'de> Deserialize<'de> for Label {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        if value.fract() == 0.0 && (0.0..=f64::from(u16::MAX)).contains(&value) {
            return Ok(Self(value as u16));
        }
        Err(D::Error::custom(format!("{value} is not a class: number them from 0")))
    }
}
