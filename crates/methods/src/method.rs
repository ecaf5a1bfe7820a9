//! What a federated method is.

#[cfg(doc)]
use crate::ErasedMethod;
use crate::{Central, Local, MethodError};
use formant_numerics::{Model, Network, vector::WeightedMean};
use serde::{Serialize, de::DeserializeOwned};
use std::borrow::Cow;

/// Something kept between rounds: checkpointed and spilled by the runtime, never sent.
///
/// Deliberately apart from [`Message`]: a personal model that is only a `State` cannot be put into
/// an upload by mistake.
pub trait State: Serialize + DeserializeOwned + Send + Sync + 'static {}

/// Something that crosses the network.
pub trait Message: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Which of the vectors holds statistics of what was seen, as in a [`Model`]. These are averages: a
    /// difference of two variances is none.
    const STATISTICS: usize = 1;

    /// What was learnt in it, always in the same order: for whoever must check, compress or
    /// [rebase](ErasedMethod::rebase) a message without knowing what it is.
    fn vectors(&self) -> Vec<&[f32]>;
    /// The same, to be changed.
    fn vectors_mut(&mut self) -> Vec<&mut Vec<f32>>;
}

impl State for () {}

impl Message for () {
    fn vectors(&self) -> Vec<&[f32]> {
        Vec::new()
    }

    fn vectors_mut(&mut self) -> Vec<&mut Vec<f32>> {
        Vec::new()
    }
}

impl Message for Model {
    fn vectors(&self) -> Vec<&[f32]> {
        vec![&self.parameters, &self.buffers]
    }

    fn vectors_mut(&mut self) -> Vec<&mut Vec<f32>> {
        vec![&mut self.parameters, &mut self.buffers]
    }
}

/// One federated method: what a client learns, what it sends, what the server makes of it.
///
/// The implementing struct *is* the hyper-parameters.
pub trait Method: Send + Sync + 'static {
    /// Kept by the server between rounds.
    type Server: State;
    /// Kept by one client between rounds, never sent.
    type Client: State;
    /// From the server to every participant.
    type Broadcast: Message;
    /// From a participant to the server.
    type Upload: Message;

    /// The server before the first round.
    fn start_server(&self, init: &Model) -> Self::Server;
    /// A client before its first round.
    fn start_client(&self, init: &Model) -> Self::Client;
    /// What the server sends at the start of a round.
    fn broadcast(&self, server: &Self::Server) -> Self::Broadcast;
    /// The shared phase: trains what is uploaded.
    fn train_shared(
        &self,
        client: &mut Self::Client,
        got: &Self::Broadcast,
        local: &mut Local<'_>,
    ) -> Result<Self::Upload, MethodError>;
    /// Whether there is a personal phase.
    fn has_personal_phase(&self) -> bool {
        false
    }
    /// The personal phase, if there is one: trains what stays. It needs nothing that is in flight, so
    /// a runtime may run it while the upload is on the network.
    fn train_personal(
        &self,
        _client: &mut Self::Client,
        _got: &Self::Broadcast,
        _sent: &Self::Upload,
        _local: &mut Local<'_>,
    ) -> Result<(), MethodError> {
        Ok(())
    }
    /// Samples that go forward and backward in the shared phase of a client with so many samples.
    fn shared_work(&self, samples: usize, epochs: usize) -> usize {
        samples * epochs
    }
    /// The same of the personal phase of a round of so many.
    fn personal_work(
        &self,
        samples: usize,
        epochs: usize,
        (_round, _rounds): (usize, usize),
    ) -> usize {
        if self.has_personal_phase() { samples * epochs } else { 0 }
    }
    /// Whether the shared phase of a round of so many is plain training, without what the method adds:
    /// it then takes no longer than that.
    fn trains_plainly(&self, (_round, _rounds): (usize, usize)) -> bool {
        false
    }
    /// Whether uploads may answer an older broadcast than the newest: if not, the method needs
    /// synchronous rounds.
    fn allows_stale_uploads(&self) -> bool {
        true
    }
    /// How long the [vectors](Message::vectors) of an upload are that answers a broadcast.
    fn upload_lengths(&self, got: &Self::Broadcast, _network: &dyn Network) -> Vec<usize> {
        got.vectors().into_iter().map(<[f32]>::len).collect()
    }
    /// What is wrong with an upload besides its vectors, if anything.
    fn upload_fault(&self, _upload: &Self::Upload, _network: &dyn Network) -> Option<String> {
        None
    }
    /// What the server makes of a round's uploads.
    fn aggregate(
        &self,
        server: &mut Self::Server,
        uploads: Uploads<'_, Self::Upload>,
        central: &mut Central<'_>,
    ) -> Result<(), MethodError>;
    /// The generic model, if the method trains one.
    fn global_model<'a>(&self, server: &'a Self::Server) -> Option<Cow<'a, Model>>;
    /// Further models that could be called the generic one, each with a name for tables.
    fn other_global_models<'a>(
        &self,
        _server: &'a Self::Server,
    ) -> Vec<(&'static str, Cow<'a, Model>)> {
        Vec::new()
    }
    /// The personal model of a client. It gets `&Client`: fine-tuning happens on a copy, so
    /// evaluation cannot train.
    fn personal_model<'a>(
        &self,
        client: &'a Self::Client,
        got: &'a Self::Broadcast,
        local: &mut Local<'_>,
    ) -> Result<Cow<'a, Model>, MethodError>;
}

/// One client's contribution to a round.
#[derive(Debug)]
pub struct Upload<U> {
    /// Who sent it.
    pub client: usize,
    /// `n_i`, the number of training samples.
    pub weight: f64,
    /// Rounds since the broadcast that it answers; 0 in a synchronous round.
    pub staleness: usize,
    /// What was sent.
    pub message: U,
}

/// A round's uploads in ascending client order, so that sums do not depend on arrival. They are
/// read one at a time and may live on disk.
pub struct Uploads<'a, U> {
    source: &'a mut dyn Iterator<Item = Result<Upload<U>, MethodError>>,
}

impl<'a, U> Uploads<'a, U> {
    /// Uploads from a source that yields them in client order.
    pub fn new(source: &'a mut dyn Iterator<Item = Result<Upload<U>, MethodError>>) -> Self {
        Self { source }
    }
}

impl<U> Iterator for Uploads<'_, U> {
    type Item = Result<Upload<U>, MethodError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.source.next()
    }
}

/// `Σ n_k w_k / Σ n_k` over models, buffers included: the aggregation of `FedAvg`. What comes from a
/// client is not trusted to be a model of this network: it must be as long as `like` and finite.
pub fn weighted_mean<U>(
    uploads: Uploads<'_, U>,
    like: &Model,
    model: impl Fn(&U) -> &Model,
) -> Result<Model, MethodError> {
    let mut parameters = WeightedMean::new(like.parameters.len());
    let mut buffers = WeightedMean::new(like.buffers.len());
    for upload in uploads {
        let upload = upload?;
        let model = model(&upload.message);
        expect_model(upload.client, model, like)?;
        parameters.add(upload.weight, &model.parameters);
        buffers.add(upload.weight, &model.buffers);
    }
    let finished = parameters.finish().zip(buffers.finish());
    let (parameters, buffers) = finished.ok_or(MethodError::NoUploads)?;
    Ok(Model { parameters, buffers })
}

/// An error unless a client's model is of the same network as another, and finite.
pub(crate) fn expect_model(client: usize, sent: &Model, like: &Model) -> Result<(), MethodError> {
    let lengths = |model: &Model| (model.parameters.len(), model.buffers.len());
    if lengths(sent) != lengths(like) {
        let (sent, expected) = (lengths(sent), lengths(like));
        return Err(MethodError::ForeignModel { client, sent, expected });
    }
    if !sent.is_finite() {
        let (sent, expected) = ("a model with values that are no numbers".into(), "numbers".into());
        return Err(MethodError::ForeignUpload { client, sent, expected });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_of(uploads: &[(f64, &[f32], &[f32])]) -> Result<Model, MethodError> {
        let mut source = uploads.iter().enumerate().map(|(client, &(weight, w, b))| {
            let message = Model { parameters: w.to_vec(), buffers: b.to_vec() };
            Ok(Upload { client, weight, staleness: 0, message })
        });
        let like = Model { parameters: vec![0.0; 2], buffers: vec![0.0] };
        weighted_mean(Uploads::new(&mut source), &like, |w| w)
    }

    #[test]
    fn the_mean_weighs_by_samples_and_includes_buffers() {
        let mean = mean_of(&[
            (1.0, &[1.0, 0.0], &[8.0]),
            (2.0, &[2.0, 3.0], &[0.0]),
            (5.0, &[3.0, -2.0], &[-4.0]),
        ]);
        // (1·1 + 2·2 + 5·3)/8 = 20/8; (0 + 2·3 − 5·2)/8 = −4/8; (8 + 0 − 5·4)/8 = −12/8.
        assert_eq!(mean.unwrap(), Model { parameters: vec![2.5, -0.5], buffers: vec![-1.5] });
    }

    #[test]
    fn nothing_to_average_is_an_error() {
        assert!(matches!(mean_of(&[]), Err(MethodError::NoUploads)));
        assert!(matches!(mean_of(&[(0.0, &[1.0, 2.0], &[3.0])]), Err(MethodError::NoUploads)));
    }

    #[test]
    fn a_model_of_another_network_is_an_error_that_names_the_client_who_sent_it() {
        // Whoever comes first does not decide what a model is.
        let right: (f64, &[f32], &[f32]) = (1.0, &[1.0, 2.0], &[0.0]);
        for (uploads, at) in
            [([(1.0, &[1.0][..], &[2.0, 3.0][..]), right], 0), ([right, (1.0, &[1.0], &[])], 1)]
        {
            let error = mean_of(&uploads).unwrap_err();
            assert!(matches!(error, MethodError::ForeignModel { client, .. } if client == at));
            assert!(error.to_string().starts_with(&format!("client {at} sent")), "{error}");
        }
        let error = mean_of(&[right, (1.0, &[1.0, f32::NAN], &[0.0])]).unwrap_err().to_string();
        assert!(
            error.starts_with("client 1 sent a model with values that are no numbers"),
            "{error}"
        );
    }
}
