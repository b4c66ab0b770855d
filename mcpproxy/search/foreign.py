"""Words of other languages for what tools do and what they do it to: German, French, Spanish,
Italian, Portuguese and Dutch.

Only the trade's own few hundred. Endings are taken off before words are compared, so one form of
each verb and noun is enough.
"""

from __future__ import annotations

FOREIGN = """
    create: creer, crear, criar, creare, erstellen, anlegen, erzeugen, maken, aanmaken, cree, crea, erstelle
    create, add: ajouter, anadir, agregar, adicionar, aggiungere, hinzufugen, toevoegen, ajoute, fuge
    delete, remove: supprimer, effacer, borrar, eliminar, apagar, excluir, eliminare, cancellare, loschen, entfernen, verwijderen, wissen, enlever, quitar
    update, edit: modifier, actualiser, actualizar, modificar, editar, atualizar, aggiornare, modificare, aktualisieren, bearbeiten, andern, bijwerken, bewerken, mettre
    rename, move: renommer, renombrar, renomear, rinominare, umbenennen, hernoemen
    move: deplacer, mover, spostare, verschieben, verplaatsen
    copy: copier, copiar, copiare, kopieren, kopieer
    search, find: rechercher, chercher, trouver, recherche, buscar, encontrar, busqueda, procurar, pesquisar, cercare, trovare, ricerca, suchen, suche, finden, zoeken, vinden
    list, show: lister, listar, mostrar, montrer, afficher, enumerer, elencare, mostrare, auflisten, zeigen, anzeigen, zeige, tonen, lijst, liste, lista, ver, voir, exibir
    get: obtenir, recuperer, obtener, obter, ottenere, holen, abrufen, ophalen, recuperar
    read: lire, leer, ler, leggere, lesen, lezen, lis, lees
    write: ecrire, escribir, escrever, scrivere, schreiben, schrijven, ecris
    save: enregistrer, sauvegarder, guardar, salvar, salvare, speichern, opslaan
    send, post: envoyer, enviar, inviare, mandare, mandar, senden, schicken, versturen, sturen, envoie, envoi, publier, publicar
    reply: repondre, responder, rispondere, antworten, antwoorden, reponse, respuesta, resposta, antwort
    open: ouvrir, abrir, aprire, offnen, openen, ouvre
    close: fermer, cerrar, fechar, chiudere, schliessen, sluiten
    run, execute: executer, ejecutar, executar, eseguire, ausfuhren, uitvoeren, lancer
    start: demarrer, iniciar, avviare, starten, commencer, empezar
    stop, kill: arreter, detener, parar, fermare, stoppen, beenden, beende, anhalten, terminar, terminer
    click: cliquer, clic, clicar, cliccare, klicken, klik, appuyer, pulsar
    fill: remplir, rellenar, llenar, preencher, compilare, riempire, ausfullen, invullen
    type, fill: taper, saisir, teclear, digitar, digitare, eingeben, tippen, typen
    choose, select: choisir, selectionner, elegir, seleccionar, escolher, selecionar, scegliere, selezionare, auswahlen, wahlen, kiezen, selecteren
    upload: televerser, subir, cargar, carregar, caricare, hochladen, uploaden, telecharger
    download, fetch: telecharger, descargar, baixar, scaricare, herunterladen, downloaden
    navigate, open: naviguer, visiter, visitar, navegar, navigare, visitare, besuchen, aufrufen, bezoeken, aller
    wait: attendre, esperar, aspettare, attendere, warten, wachten
    compare, diff: comparer, comparar, confrontare, vergleichen, vergleich, vergelijken, comparaison
    difference, diff: differences, diferencias, diferencas, differenze, unterschiede, verschillen
    merge: fusionner, fusionar, mesclar, unire, fondere, zusammenfuhren, mischen, samenvoegen
    convert: convertir, converter, convertire, umwandeln, umrechnen, omzetten
    calculate: calculer, calcular, calcolare, berechnen, rechnen, ausrechnen, berekenen
    summarize: resumer, resumir, riassumere, zusammenfassen, samenvatten
    check: verifier, verificar, comprobar, controllare, verificare, prufen, uberprufen, controleren
    install: installer, instalar, installare, installieren, installeren
    watch, monitor: surveiller, vigilar, monitorear, monitorar, sorvegliare, uberwachen, bewaken
    remember: souvenir, recordar, lembrar, ricordare, merken, erinnern, onthouden
    draw, generate chart: dessiner, tracer, dibujar, desenhar, disegnare, zeichnen, tekenen
    generate: generer, generar, gerar, generare, generieren, genereren
    scale: redimensionner, escalar, scalare, skalieren, schalen
    restart: redemarrer, reiniciar, riavviare, neustarten, herstarten
    undo, revert: annuler, deshacer, desfazer, annullare, ruckgangig, ongedaan
    link, relation: relier, vincular, enlazar, collegare, verknupfen, verbinden
    translate, convert: traduire, traducir, traduzir, tradurre, ubersetzen
    file: fichier, archivo, fichero, arquivo, ficheiro, datei, dateien, bestand, bestanden, archivio
    directory: dossier, repertoire, carpeta, directorio, pasta, diretorio, cartella, ordner, verzeichnis, map, verzeichnisse
    page: page, pagina, seite, seiten
    web page: webseite, webpagina
    website, web: internet, sito, sitio, netz
    image: imagen, imagem, immagine, bild, bilder, afbeelding
    screenshot: captura, ecran, pantalla, bildschirmfoto, bildschirm, schermata, schermo, schermafbeelding, tela, print, ekran
    screenshot, capture: capture
    message: mensaje, mensagem, messaggio, nachricht, nachrichten, bericht
    channel: canal, canale, kanal, kanaal, chaine
    thread: fil, hilo, conversa, conversacion, conversation, unterhaltung, gesprach
    user: utilisateur, usuario, utente, benutzer, nutzer, gebruiker
    users: utilisateurs, usuarios, utenti
    profile: profil, perfil, profilo
    comment: commentaire, comentario, commento, kommentar, kommentare, opmerking
    issue: incidencia, problema, probleme, fehlerbericht
    error, issue: erreur, fehler, errore, erro, fout
    repository: depot, repositorio, repositorium, deposito
    branch: branche, rama, ramo, zweig, tak, ramas
    commit: commits
    history, log: historique, historial, historico, cronologia, storia, verlauf, geschichte, geschiedenis
    changes, diff: changements, modifications, cambios, mudancas, alteracoes, modifiche, anderungen, wijzigingen
    tag: etiquette, etiqueta, etichetta
    database: datenbank, datenbanken, banco, basededatos, database
    database, base: base
    table: tableau, tabla, tabela, tabella, tabelle, tabellen, tabel
    column: colonne, columna, coluna, colonna, spalte, spalten, kolom
    row: ligne, fila, linha, riga, zeile, zeilen, rij, registro
    query, sql: requete, consulta, interrogazione, abfrage, abfragen
    time: heure, hora, ora, uhrzeit, zeit, tijd, uhr, temps, tiempo, tempo
    current time: spat, laat
    timezone: fuseau, zeitzone, huso, fuso, tijdzone
    date, time: datum, fecha
    chart: graphique, grafico, grafica, diagramm, schaubild, diagramma, diagrama, grafiek
    pie: camembert, secteurs, kreis, tarta, torta, pizza, taart, circular
    bar: barres, balken, barras, barre, staaf
    line: linie, linien, lineas, linhas, linee, lijn, courbe
    histogram: histogramme, histograma, istogramma, histogramm
    scatter: nuage, dispersion, dispersione, streudiagramm, punktdiagramm
    funnel: entonnoir, embudo, funil, imbuto, trichter
    map: carte, mapa, mappa, karte, landkarte, kaart
    node, entity: noeud, nodo, knoten, entite, entidad, entidade, entita, entitat
    relation: relacion, relacao, relazione, beziehung, relatie
    graph: graphe, grafo
    knowledge: connaissances, conocimiento, conhecimento, conoscenza, wissen, kennis
    process: processus, proceso, processo, prozess, prozesse, proces
    command: commande, comando, befehl, kommando, opdracht
    memory: memoire, memoria, speicher, geheugen
    system: systeme, sistema, systeem
    computer, system: ordinateur, ordenador, computador, rechner
    logs: journaux, registros, protokolle, protokoll
    cluster, kubernetes: grappe
    deployment: deploiement, despliegue, implantacao, bereitstellung
    replicas: repliques, replicas, repliken
    document: documento, dokument, dokumente
    documentation: documentacion, documentacao, documentazione, dokumentation
    library: bibliotheque, biblioteca, libreria, bibliothek, bibliotheek
    button, click: bouton, boton, botao, pulsante, knopf, schaltflache, knop
    form: formulaire, formulario, modulo, formular, formulier
    field: champ, campo, feld, veld
    tab, page: onglet, pestana, aba, scheda, registerkarte, tabblad
    browser: navigateur, navegador, browser
    window: fenetre, ventana, janela, finestra, fenster, venster
    keyboard, key: clavier, teclado, tastiera, tastatur
    key: touche, tecla, tasto, taste
    link, url: lien, enlace, collegamento, verweis
    email: correo, courriel
    text: texte, texto, testo
    content: contenu, contenido, conteudo, contenuto, inhalt, inhoud
    size: taille, tamano, tamanho, dimensione, grosse, grootte
    name: nom, nombre, nome, naam
    number, sum: nombre, numero, zahl, zahlen, getal
    sum, add: somme, suma, soma, somma, summe
    expression, calculate: mathematique, matematica, mathematisch
    configuration, config: parametres, ajustes, configuracion, configuracao, impostazioni, einstellungen, instellingen, konfiguration
    environment: environnement, entorno, ambiente, umgebung
    variables: variable, umgebungsvariablen
    weather: meteo, clima, tiempo, wetter
    several, multiple: plusieurs, varios, varias, mehrere, meerdere, parecchi
    current: actuel, actuelle, actual, atual, attuale, aktuell, aktuelle, aktuellen, huidige
    new, create: nouveau, nouvelle, nuevo, nueva, novo, nova, nuovo, nuova, neu, neue, neuen, neues, nieuw, nieuwe
    last, recent: dernier, derniere, ultimo, ultima, letzte, letzten, laatste
    structure, schema: estructura, estrutura, struktur, structuur
    running: laufenden, laufende, cours
    papers, research: articles, articulos, artigos, artikel, forschung
    web, search: web
    organization chart: organigramme, organigrama, organigramm, organigramma
"""
"""Each line: what tools call it, and words for that."""

EXPRESSIONS = """
    reload, navigate: neu laden, neu geladen, recharger page, actualiser page, recargar pagina, recarregar pagina, ricaricare pagina, pagina vernieuwen
    rollout, restart: neu starten, wieder starten, opnieuw starten
    navigate back: zuruck gehen, seite zuruck, page precedente, retour arriere, pagina anterior, volver atras, pagina precedente, tornare indietro, vorige pagina
    update, edit: mettre jour, poner dia, auf stand
    scale: mettre echelle
    screenshot: capture ecran, captura pantalla, captura tela, foto pantalla, prendre photo, bild seite, bildschirm aufnehmen
    database: base donnees, base datos, banco dados, base dati, base dados
    pull request, merge request: demande tirage, demande fusion, solicitud extraccion, solicitud fusion, richiesta pull
    command, terminal: ligne commande, linea comandos, linha comando, riga comando
    timezone: fuseau horaire, zona horaria, huso horario, fuso horario, fuso orario
    click: hacer clic, faire clic, fare clic, fazer clique, drauf klicken
    drag: glisser deposer, arrastrar soltar, ziehen ablegen, arrastar soltar, slepen neerzetten
    handle dialog: boite dialogue, cuadro dialogo, caixa dialogo, finestra dialogo
    select option: liste deroulante, lista desplegable, lista suspensa, menu tendina
    spreadsheet: hoja calculo, feuille calcul, folha calculo, foglio calcolo
    current time: wie spat, quelle heure, que hora, que horas, che ora, hoe laat
    search web: chercher internet, buscar internet, im netz, im internet, cercare internet, zoeken internet
    table: tableau donnees
    log, history: historique commits, historial commits, verlauf commits
    staged, staging: zone index, area preparacion
    send, post message: bescheid geben, bescheid sagen, faire savoir, hacer saber
    merge: zusammen fuhren, mettre ensemble
    create: neu anlegen, neu erstellen
    word cloud: nuage mots, nube palabras, nuvem palavras
    pie chart: diagramme circulaire, grafico circular, grafico pastel, grafico torta, diagramme secteurs
    mind map: carte mentale, mapa mental, mappa mentale
"""
"""The same for several words, others between them or not."""
